"""Style sheet and script of the page: how it looks, the little it does by itself; embedded, nothing is fetched."""

from __future__ import annotations

CSS = """
:root { color-scheme: light dark;
  --ink: #1b1f24; --soft: #59636e; --page: #f6f7f9; --card: #ffffff; --rule: #dfe3e8; --grid: #e6e9ed;
  --red: #c0241c; --red-soft: #fdecea; --green: #22714a; --green-soft: #e8f5ee; --amber: #8a5a00; --amber-soft: #fdf4df;
  --accent: #0062a3; }
@media (prefers-color-scheme: dark) { :root {
  --ink: #e8ebef; --soft: #a2abb5; --page: #14171b; --card: #1d2126; --rule: #353b43; --grid: #2b3138;
  --red: #ff8078; --red-soft: #3b1d1b; --green: #6fcf97; --green-soft: #17301f; --amber: #f0c063; --amber-soft: #352a12;
  --accent: #69b7ee; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.55 system-ui, "Segoe UI", Roboto,
  "Helvetica Neue", "Liberation Sans", Arial, sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 28px 20px 60px; }
h1 { font-size: 27px; line-height: 1.2; margin: 0 0 8px; letter-spacing: -0.01em; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 0 0 4px; }
p { margin: 6px 0; max-width: 95ch; overflow-wrap: anywhere; }
.soft, .caption { color: var(--soft); } .caption { font-size: 13.5px; }
.chips { display: flex; flex-wrap: wrap; gap: 6px 18px; color: var(--soft); font-size: 13.5px; margin-bottom: 20px; }
.chips b { color: var(--ink); font-weight: 600; }
section { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; padding: 18px 22px;
  margin: 16px 0; }
.verdict { border-left: 6px solid var(--soft); }
.verdict .headline { font-size: 20px; line-height: 1.4; font-weight: 600; margin: 0 0 8px; }
.culprits { border-left-color: var(--red); background: linear-gradient(90deg, var(--red-soft), var(--card) 55%); }
.healthy { border-left-color: var(--green); background: linear-gradient(90deg, var(--green-soft), var(--card) 55%); }
.notice { border-left: 6px solid var(--amber); background: var(--amber-soft); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 16px 0; }
.tile { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; padding: 12px 16px; }
.tile b { display: block; font-size: 22px; font-weight: 650; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: 13px; }
.scroll { overflow-x: auto; } .figure { width: 100%; }
table { border-collapse: collapse; width: 100%; margin-top: 10px; font-variant-numeric: tabular-nums; font-size: 14px; }
th { text-align: left; color: var(--soft); font-weight: 600; font-size: 12.5px; }
th, td { padding: 6px 10px; border-bottom: 1px solid var(--rule); vertical-align: top; }
td.n, th.n { text-align: right; white-space: nowrap; } tr:last-child td { border-bottom: 0; }
table.heat { width: auto; border-collapse: separate; border-spacing: 2px; font-size: 11px; }
.heat th { font-size: 11px; padding: 2px 6px; border: 0; text-align: right; white-space: nowrap; }
.heat tr:first-child th { vertical-align: bottom; padding: 4px 0; }
.heat tr:first-child th span { writing-mode: vertical-rl; transform: rotate(180deg); }
.heat td { border: 0; border-radius: 3px; padding: 4px; min-width: 26px; height: 24px; text-align: center;
  vertical-align: middle; }
.heat td.self { background: none; }
.key { white-space: nowrap; border-radius: 3px; padding: 1px 8px; margin-left: 6px; color: var(--ink); }
.t0 { background: color-mix(in srgb, var(--green) 55%, var(--card)); }
.t1 { background: color-mix(in srgb, var(--green) 38%, var(--card)); }
.t2 { background: color-mix(in srgb, var(--green) 24%, var(--card)); }
.t3 { background: color-mix(in srgb, var(--green) 12%, var(--card)); }
.heat td.t9, .key.t9 { background: var(--amber); color: var(--card); font-weight: 700; }
.heat td.t-, .key.t- { background: var(--rule); }
tr.marked td { color: var(--red); font-weight: 600; } td.off { color: var(--amber); font-weight: 600; }
ul { margin: 6px 0; padding-left: 20px; } li { margin: 3px 0; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: minmax(130px, max-content) 1fr; gap: 6px 18px; margin: 10px 0; }
dt { font-weight: 600; } dd { margin: 0; color: var(--soft); }
pre { background: var(--page); border: 1px solid var(--rule); border-radius: 8px; padding: 12px 14px; overflow-x: auto;
  font: 13px/1.5 ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; }
button { font: inherit; font-size: 13.5px; color: var(--accent); background: transparent; border: 1px solid var(--rule);
  border-radius: 7px; padding: 4px 12px; margin: 8px 6px 0 0; cursor: pointer; }
button:hover { border-color: var(--accent); } summary { cursor: pointer; font-weight: 600; }
@media print { body { background: #fff; } section, .tile { break-inside: avoid; } button { display: none; } }
"""

SCRIPT = """
(function () {
  "use strict";
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const axes = layout => Object.keys(layout).filter(key => /^[xy]axis[0-9]*$/.test(key));
  function theme(layout) {
    const change = { "font.color": colour("--ink"), "hoverlabel.bgcolor": colour("--card"),
      "hoverlabel.font.color": colour("--ink"), "hoverlabel.bordercolor": colour("--rule") };
    for (const axis of axes(layout)) {
      change[axis + ".gridcolor"] = colour("--grid");
      change[axis + ".linecolor"] = colour("--rule");
    }
    return change;
  }
  // Nothing leaves the page: Plotly's button that sends a figure to its makers' server is left out.
  const config = { responsive: true, displaylogo: false, typesetMath: false,
    showSendToCloud: false, plotlyServerURL: "",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };
  const figures = Array.from(document.querySelectorAll(".figure"));
  for (const place of figures) {
    const figure = JSON.parse(document.getElementById(place.id + "-data").textContent);
    Plotly.newPlot(place, figure.data, figure.layout, config).then(() => Plotly.relayout(place, theme(place.layout)));
  }
  dark.addEventListener("change", () => figures.forEach(place => Plotly.relayout(place, theme(place.layout))));
  for (const button of document.querySelectorAll("button[data-range]")) {
    const range = JSON.parse(button.dataset.range);
    button.addEventListener("click", () => Plotly.relayout(button.dataset.figure, { "xaxis.range": range }));
  }
})();
"""

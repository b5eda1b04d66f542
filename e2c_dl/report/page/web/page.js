// The theme, and the start: figures are made when the page has been read, large ones when they come into view.
const root = document.documentElement, preferred = window.matchMedia("(prefers-color-scheme: dark)");
let scheme = null; // the colours in force, until the theme changes

// The colours of the theme in force, from the style sheet.
function colours() {
  if (scheme) return scheme;
  const style = getComputedStyle(root), value = name => style.getPropertyValue("--" + name).trim();
  const numbers = colour => [1, 3, 5].map(at => parseInt(colour.slice(at, at + 2), 16));
  const phases = {};
  for (let phase = 1; phase < 10; phase++) phases[phase] = value("phase-" + phase) || value("soft");
  scheme = {
    ink: value("ink"), soft: value("soft"), grid: value("grid"), veil: value("veil"), select: value("select"), culprit: value("culprit"),
    message: value("message"), mark: value("mark"), states: [0, 1, 2, 3].map(state => value("state-" + state)), phases,
    heat: [0, 1, 2, 3, 4, 5].map(step => numbers(value("heat-" + step))),
  };
  return scheme;
}

function stored(key, value) { // a page that is opened as a file may not be allowed to keep anything
  try {
    if (value === undefined) return localStorage.getItem(key);
    localStorage.setItem(key, value);
  } catch (refused) { /* the theme is then chosen anew each time */ }
  return null;
}

function choose(theme) {
  if (theme === "auto") delete root.dataset.theme; else root.dataset.theme = theme;
  for (const button of document.querySelectorAll("button[data-theme-is]")) button.setAttribute("aria-pressed", String(button.dataset.themeIs === theme));
  scheme = null;
  document.dispatchEvent(new Event("themed"));
}

choose(stored("e2c-dl-theme") || "auto");
for (const button of document.querySelectorAll("button[data-theme-is]")) {
  button.addEventListener("click", () => { stored("e2c-dl-theme", button.dataset.themeIs); choose(button.dataset.themeIs); });
}
preferred.addEventListener("change", () => { scheme = null; document.dispatchEvent(new Event("themed")); });

async function begin() {
  let timeline = null;
  const place = document.getElementById("timeline"), heat = document.getElementById("heat");
  if (place) {
    timeline = new Timeline(place, await unpacked("timeline"));
    document.addEventListener("themed", () => timeline.draw());
  }
  if (heat) {
    const map = new HeatMap(heat, await unpacked("heat"), timeline);
    document.addEventListener("themed", () => map.draw());
    if (timeline) timeline.show(timeline.from, timeline.to);
  }
  requestAnimationFrame(() => requestAnimationFrame(() => { root.dataset.drawn = String(Math.round(performance.now())); }));
  watchFigures();
}

// Plotly, and what it draws, once a figure of its comes near.
function watchFigures() {
  const figures = Array.from(document.querySelectorAll(".figure"));
  if (!figures.length) return;
  let opened = null;
  const seen = new IntersectionObserver(entries => {
    for (const { target } of entries.filter(entry => entry.isIntersecting)) {
      seen.unobserve(target);
      opened = opened || openPlotly();
      opened.then(() => target.layout || plot(target));
    }
  }, { rootMargin: "300px" });
  // On paper nothing comes near. A printer does not wait: it has all of them once Plotly is there, which the first brings.
  window.addEventListener("beforeprint", () => {
    if (window.Plotly) figures.filter(place => !place.layout).forEach(plot);
  });
  figures.forEach(figure => seen.observe(figure));
  document.addEventListener("themed", () => figures.filter(place => place.layout).forEach(place => Plotly.relayout(place, themed(place.layout))));
}

async function openPlotly() {
  const text = document.getElementById("plotly-data").textContent;
  const bytes = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
  const script = document.createElement("script");
  script.textContent = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  document.head.append(script);
}

async function plot(place) {
  const figure = JSON.parse(document.getElementById(place.id + "-data").textContent);
  // Nothing leaves the page: Plotly's button that sends a figure to its makers' server is left out.
  const config = { responsive: true, displaylogo: false, typesetMath: false, showSendToCloud: false, plotlyServerURL: "",
    displayModeBar: window.innerWidth < 640 ? false : "hover", // on a phone it would stand on the axes
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };
  await Plotly.newPlot(place, figure.data, figure.layout, config);
  await Plotly.relayout(place, themed(place.layout));
  const fit = () => relabelled(place);
  window.addEventListener("resize", fit);
  await fit();
}

// A narrow page has smaller type, and shorter texts where a figure tells them. Labels that would cover each other are
// shown where there is room; the table beside the figure has them, too.
async function relabelled(place) {
  const narrow = place.clientWidth < 480, told = place.layout.meta && place.layout.meta.by_width;
  const sizes = { "legend.font.size": narrow ? 11 : 13, "xaxis.title.font.size": narrow ? 12 : 13, "yaxis.tickfont.size": narrow ? 11 : 13 };
  const ask = told ? told[narrow ? "narrow" : "wide"] : { trace: {}, layout: {} };
  await Plotly.update(place, ask.trace, { ...sizes, ...ask.layout });
  for (const [index, trace] of place.data.entries()) {
    if (!trace.meta || !trace.meta.least_px) continue;
    const visible = place.clientWidth >= trace.meta.least_px;
    if (visible !== (trace.visible !== false)) await Plotly.restyle(place, { visible }, [index]);
  }
}

function themed(layout) {
  const style = getComputedStyle(root), colour = name => style.getPropertyValue(name).trim();
  const change = { "font.color": colour("--ink"), "hoverlabel.bgcolor": colour("--card"),
    "hoverlabel.font.color": colour("--ink"), "hoverlabel.bordercolor": colour("--rule") };
  for (const axis of Object.keys(layout).filter(key => /^[xy]axis[0-9]*$/.test(key))) {
    change[axis + ".gridcolor"] = colour("--grid");
    change[axis + ".linecolor"] = colour("--rule");
  }
  return change;
}

begin();

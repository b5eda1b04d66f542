// The heat map: a pixel per row and column, drawn once per size and theme, stretched to the page's width.
class HeatMap {
  constructor(place, { facts, columns }, timeline) {
    Object.assign(this, { place, facts, columns, timeline });
    this.canvas = place.querySelector("canvas");
    this.tip = place.querySelector(".tip");
    this.count = columns.start.length;
    this.row = facts.rows.length > 40 ? 9 : facts.rows.length > 20 ? 13 : 18;
    this.chosen = { column: 0, row: 0 };
    new ResizeObserver(() => this.draw()).observe(place);
    document.addEventListener("shown", event => { this.window = event.detail; this.draw(); });
    this.canvas.addEventListener("pointermove", event => this.hint(event));
    this.canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    this.canvas.addEventListener("click", event => { const at = this.square(event); if (at) this.go(at.column); });
    this.canvas.addEventListener("keydown", event => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (by) { this.chosen.column = Math.min(this.count - 1, Math.max(0, this.chosen.column + by)); this.draw(); event.preventDefault(); }
      if (event.key === "Enter") this.go(this.chosen.column);
    });
  }

  // Shows a column's time in the timeline, with half of it on either side.
  go(column) {
    this.chosen.column = column;
    if (!this.timeline) return;
    const from = this.columns.start[column], to = this.columns.end[column], room = (to - from) / 2;
    this.timeline.show(from - room, to + room);
    this.timeline.place.scrollIntoView({ behavior: "smooth", block: "nearest" });
  }

  // As far as a shade tells it: to 1 %, and no more of what is beyond the scale.
  times(slower) {
    const { least, slowest } = this.facts;
    return (slower >= slowest ? "at least " : slower <= least ? "at most " : "") + slower.toFixed(slower < 9.95 ? 1 : 0);
  }

  slowdown(row, column) {
    const shade = this.columns.heat[row * this.count + column], { least, slowest, shades } = this.facts;
    return shade ? least * (slowest / least) ** ((shade - 1) / shades) : NaN;
  }

  draw() {
    const width = this.place.clientWidth;
    if (!width) return;
    const rows = this.facts.rows.length, top = 20, height = top + rows * this.row + 4;
    const context = sized(this.canvas, width, height), scheme = colours();
    this.gutter = Math.min(width * 0.36, 168);
    this.room = width - this.gutter - 1;
    this.top = top;
    context.imageSmoothingEnabled = false;
    context.drawImage(this.image(scheme), this.gutter, top, this.room, rows * this.row);
    const family = getComputedStyle(document.body).fontFamily;
    context.textBaseline = "middle";
    context.textAlign = "right";
    this.facts.rows.forEach((row, number) => {
      if (this.row < 12 && !row.marked && number % 2) return; // no room for every name
      context.font = (row.marked ? "bold " : "") + Math.min(12.5, this.row + 1) + "px " + family;
      context.fillStyle = row.marked ? scheme.culprit : row.link ? scheme.soft : scheme.ink;
      context.fillText(fitted(context, row.name, this.gutter - 10), this.gutter - 8, top + (number + 0.5) * this.row);
    });
    this.drawNumbers(context, scheme, family);
    if (this.window) this.drawWindow(context, scheme, height);
  }

  drawNumbers(context, scheme, family) {
    const wanted = this.facts.iterations / Math.max(2, Math.floor(this.room / 80)), power = 10 ** Math.floor(Math.log10(Math.max(1, wanted)));
    const step = [1, 2, 5, 10].map(times => times * power).find(each => each >= wanted) || 1;
    context.font = "12px " + family;
    context.textAlign = "left";
    context.fillStyle = scheme.soft;
    for (let iteration = 0; iteration < this.facts.iterations; iteration += step) {
      const x = this.gutter + iteration / (this.count * this.facts.step) * this.room, number = iteration + this.facts.begins_with, text = iteration ? String(number) : "iteration " + number;
      if (x + context.measureText(text).width < this.gutter + this.room) context.fillText(text, x, 9);
    }
  }

  // A frame around what the timeline shows.
  drawWindow(context, scheme, height) {
    const { start, end } = this.columns;
    const first = lastUpTo(start, this.window.from, 0, this.count);
    let last = lastUpTo(start, this.window.to, 0, this.count);
    if (end[first] < this.window.from && first < last) return;
    if (first === 0 && last === this.count - 1) return;
    const x = this.gutter + first / this.count * this.room, width = (last - first + 1) / this.count * this.room;
    context.strokeStyle = scheme.ink;
    context.lineWidth = 1.5;
    context.strokeRect(x - 0.75, this.top - 1.5, Math.max(3, width + 1.5), height - this.top - 1);
  }

  image(scheme) {
    if (this.drawn && this.drawn.scheme === scheme) return this.drawn.image;
    const image = document.createElement("canvas"), rows = this.facts.rows.length;
    image.width = this.count;
    image.height = rows;
    const context = image.getContext("2d"), pixels = context.createImageData(this.count, rows);
    const table = Array.from({ length: 256 }, (_, shade) => this.shade(shade, scheme.heat));
    this.columns.heat.forEach((shade, i) => pixels.data.set(table[shade], i * 4));
    context.putImageData(pixels, 0, 0);
    this.drawn = { scheme, image };
    return image;
  }

  // Between neighbours of the scale's colours, which stand at 1, 1.25, 1.6, 2.3, 3.7 and 6 times.
  shade(shade, scale) {
    if (!shade) return [0, 0, 0, 0];
    const { least, slowest, shades } = this.facts, slower = Math.max(1, least * (slowest / least) ** ((shade - 1) / shades));
    const steps = [1, 1.25, 1.6, 2.3, 3.7, 6], above = Math.max(1, steps.findIndex(step => slower <= step));
    if (slower >= 6) return [...scale[5], 255];
    const share = (slower - steps[above - 1]) / (steps[above] - steps[above - 1]);
    return [...scale[above - 1].map((from, i) => Math.round(from + (scale[above][i] - from) * share)), 255];
  }

  square(event) {
    const box = this.canvas.getBoundingClientRect(), x = event.clientX - box.left - this.gutter, y = event.clientY - box.top - this.top;
    const column = Math.floor(x / this.room * this.count), row = Math.floor(y / this.row);
    return x >= 0 && y >= 0 && column < this.count && row < this.facts.rows.length ? { column, row } : null;
  }

  hint(event) {
    const at = this.square(event);
    this.tip.hidden = !at;
    if (!at) return;
    const row = this.facts.rows[at.row], slower = this.slowdown(at.row, at.column), first = at.column * this.facts.step, shown = iteration => iteration + this.facts.begins_with;
    const last = Math.min(this.facts.iterations, first + this.facts.step) - 1;
    const what = isNaN(slower) ? "did nothing" : this.times(slower) + " × " + (row.design ? "what was designed" : "its own median");
    this.tip.textContent = row.name + "\n" + (last > first ? "iterations " + shown(first) + " to " + shown(last) + ", worst: " : "iteration " + shown(first) + ": ") + what;
    const place = this.place.getBoundingClientRect();
    this.tip.style.left = Math.max(4, Math.min(event.clientX - place.left + 14, place.width - this.tip.offsetWidth - 6)) + "px";
    this.tip.style.top = event.clientY - place.top + 18 + "px";
  }
}

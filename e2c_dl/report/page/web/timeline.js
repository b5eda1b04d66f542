// The timeline: a canvas that is drawn anew for every window of time; names are drawn as text, never as markup.
const TOP = 24, LANE = 40, STATE = 20, PIECE = 8, JOINED = 4, LINK = 19, MESSAGE = 10, GAP = 10;
const MOST_STROKES = 9000; // of one kind in one drawing: more could not be told apart

class Timeline {
  constructor(place, { facts, columns }) {
    this.place = place;
    this.facts = facts;
    this.canvas = place.querySelector("canvas.lanes");
    this.overview = place.querySelector("canvas.overview");
    this.tip = place.querySelector(".tip");
    const tick = facts.tick_s;
    this.states = unpackedLines("s", columns, tick, 4);
    this.busy = unpackedLines("l", columns, tick, 2);
    this.pieces = this.spans("p", columns, tick);
    this.messages = this.spans("m", columns, tick);
    this.collectives = columns.k_first ? this.spans("k", columns, tick) : null;
    this.iterations = this.spans("i", columns, tick);
    this.path = { row: columns.c_row, start: seconds(columns.c_start, tick) };
    this.path.end = this.path.start.map((at, i) => at + columns.c_length[i] * tick);
    this.rows = [...facts.lanes, ...facts.links];
    [this.from, this.to] = facts.open;
    this.pointers = new Map();
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.place);
    this.show(this.from, this.to);
  }

  spans(name, columns, tick) {
    const start = seconds(columns[name + "_start"], tick), length = columns[name + "_length"];
    const end = start.map((at, i) => at + length[i] * tick);
    const first = columns[name + "_first"];
    const longest = Array.from({ length: Math.max(0, first.length - 1) }, (_, row) => {
      let most = 0;
      for (let i = first[row]; i < first[row + 1]; i++) most = Math.max(most, end[i] - start[i]);
      return most;
    });
    return { first, start, end, longest, iteration: summed(columns[name + "_iteration"]), bucket: columns[name + "_bucket"],
      phase: columns[name + "_phase"], bytes: columns[name + "_bytes"] };
  }

  // [first, last) of a row's spans that reach into the window.
  visible(spans, row, from, to) {
    const low = spans.first[row], high = spans.first[row + 1];
    if (low >= high) return [low, low];
    const first = lastUpTo(spans.start, from - spans.longest[row], low, high);
    return [first, Math.min(high, lastUpTo(spans.start, to, low, high) + 1)];
  }

  show(from, to) {
    const least = Math.max(this.facts.end_s * 1e-9, 1e-7);
    const length = Math.min(Math.max(to - from, least), Math.max(this.facts.end_s, least));
    from = Math.min(Math.max(0, from), this.facts.end_s - length);
    this.from = from;
    this.to = from + length;
    this.canvas.setAttribute("aria-label", "Timeline of workers and links from " + at_s(this.from) + " to " + at_s(this.to));
    this.draw();
    document.dispatchEvent(new CustomEvent("shown", { detail: { from: this.from, to: this.to } }));
  }

  zoom(factor, around = (this.from + this.to) / 2) {
    this.show(around - (around - this.from) * factor, around + (this.to - around) * factor);
  }

  pan(share) {
    const by = (this.to - this.from) * share;
    this.show(this.from + by, this.to + by);
  }

  draw() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => { this.asked = false; this.drawNow(); });
  }

  get height() { return TOP + this.facts.lanes.length * LANE + (this.facts.links.length ? GAP + this.facts.links.length * LINK : 0) + 4; }

  top(row) {
    const lanes = this.facts.lanes.length;
    return row < lanes ? TOP + row * LANE : TOP + lanes * LANE + GAP + (row - lanes) * LINK;
  }

  drawNow() {
    const width = this.place.clientWidth;
    if (!width) return;
    const context = sized(this.canvas, width, this.height);
    this.gutter = Math.min(width * 0.36, 168);
    this.colours = colours();
    context.font = "12px " + getComputedStyle(document.body).fontFamily;
    const x = this.gutter, room = Math.floor(width - x - 1);
    this.room = room;
    drawAxis(context, this.from, this.to, x, room, TOP, this.height, this.colours);
    const { states, phases } = this.colours;
    this.states.forEach((line, row) => {
      line.draw(context, this.from, this.to, x, this.top(row) + 3, room, STATE, states);
    });
    this.drawMarks(context, x, room);
    this.drawSpans(context, this.pieces, 0, STATE + 5, PIECE, span => phases[this.pieces.phase[span]],
      span => Math.max(0, this.pieces.bucket[span]) % 2, x, room);
    if (this.collectives) {
      this.drawSpans(context, this.collectives, 0, STATE + 6 + PIECE, JOINED, () => this.colours.message,
        span => Math.max(0, this.collectives.bucket[span]) % 2, x, room);
    }
    const lanes = this.facts.lanes.length;
    const single = this.detailed() && this.drawSpans(context, this.messages, lanes, 5, MESSAGE, () => this.colours.message,
      span => span % 2, x, room);
    if (!single) {
      this.busy.forEach((line, row) =>
        line.draw(context, this.from, this.to, x, this.top(lanes + row) + 5, room, MESSAGE, [this.colours.message, null]));
    }
    this.drawPath(context, x, room);
    this.drawNames(context, x);
    if (this.selecting) {
      context.fillStyle = this.colours.select;
      const [a, b] = this.selecting;
      context.fillRect(Math.min(a, b), 0, Math.abs(b - a), this.height);
    }
    this.drawOverview(width);
  }

  // Whether the window lies where single messages are known.
  detailed() {
    const known = this.facts.detailed;
    return !known || known.some(([low, high]) => low <= this.from + 1e-9 && this.to <= high + 1e-9);
  }

  drawSpans(context, spans, row0, offset, height, colour, shade, x, room) {
    const ranges = [];
    let count = 0;
    for (let row = 0; row + 1 < spans.first.length; row++) {
      ranges.push(this.visible(spans, row, this.from, this.to));
      count += ranges[row][1] - ranges[row][0];
    }
    if (count > MOST_STROKES) return false;
    const scale = room / (this.to - this.from);
    ranges.forEach(([first, last], row) => {
      const y = this.top(row0 + row) + offset;
      for (let i = first; i < last; i++) {
        const begin = Math.max(this.from, spans.start[i]), end = Math.min(this.to, spans.end[i]);
        if (end < begin) continue;
        context.globalAlpha = shade(i) ? 0.6 : 1;
        context.fillStyle = colour(i);
        context.fillRect(x + (begin - this.from) * scale, y, Math.max(0.75, (end - begin) * scale), height);
      }
    });
    context.globalAlpha = 1;
    return true;
  }

  // Strokes where iterations begin, unless they would be a hatching.
  drawMarks(context, x, room) {
    const spans = this.iterations, scale = room / (this.to - this.from);
    context.fillStyle = this.colours.mark;
    for (let row = 0; row + 1 < spans.first.length; row++) {
      const [first, last] = this.visible(spans, row, this.from, this.to);
      if (first < last && (spans.end[first] - spans.start[first]) * scale < 6) continue;
      for (let i = first; i < last; i++) {
        if (spans.start[i] >= this.from && spans.start[i] <= this.to) context.fillRect(x + (spans.start[i] - this.from) * scale, this.top(row), 1.5, LANE - 4);
      }
    }
  }

  // The critical path: a line under the rows that it lies on, strokes where it goes from one to the next.
  drawPath(context, x, room) {
    const { row, start, end } = this.path, scale = room / (this.to - this.from), lanes = this.facts.lanes.length;
    if (!row.length) return;
    const first = lastUpTo(start, this.from, 0, row.length), last = Math.min(row.length, lastUpTo(start, this.to, 0, row.length) + 1);
    const at = i => this.top(row[i]) + (row[i] < lanes ? 1 : 2.5);
    context.fillStyle = this.colours.ink;
    const few = last - first < room / 3;
    for (let i = first; i < last; i++) {
      const begin = Math.max(this.from, start[i]), until = Math.min(this.to, end[i]);
      if (until <= begin) continue;
      context.globalAlpha = few ? 1 : 0.6;
      context.fillRect(x + (begin - this.from) * scale, at(i) - 1, Math.max(0.5, (until - begin) * scale), 2);
      if (!few || i + 1 >= last || start[i + 1] > this.to) continue;
      const low = Math.min(at(i), at(i + 1)), high = Math.max(at(i), at(i + 1));
      context.globalAlpha = 0.45;
      if (end[i] >= this.from) context.fillRect(x + (end[i] - this.from) * scale - 0.5, low, 1, high - low);
    }
    context.globalAlpha = 1;
  }

  drawNames(context, x) {
    context.textBaseline = "middle";
    context.textAlign = "right";
    this.rows.forEach((row, number) => {
      const is_lane = number < this.facts.lanes.length;
      const family = getComputedStyle(document.body).fontFamily;
      context.font = (row.marked ? "bold " : "") + (is_lane ? "13px " : "11.5px ") + family;
      context.fillStyle = row.marked ? this.colours.culprit : is_lane ? this.colours.ink : this.colours.soft;
      context.fillText(fitted(context, row.name, x - 10), x - 8, this.top(number) + (is_lane ? 3 + STATE / 2 : 5 + MESSAGE / 2));
    });
    context.textAlign = "left";
  }

  drawOverview(width) {
    const context = sized(this.overview, width, 34), x = this.gutter, room = this.room;
    const many = this.states.length, height = 26 / Math.max(1, many);
    this.states.forEach((line, row) => line.draw(context, 0, this.facts.end_s, x, 4 + row * height, room, height, this.colours.states));
    const scale = room / (this.facts.end_s || 1);
    const low = x + this.from * scale, high = Math.max(low + 2, x + this.to * scale);
    context.fillStyle = this.colours.veil;
    context.fillRect(x, 0, low - x, 34);
    context.fillRect(high, 0, x + room - high, 34);
    context.strokeStyle = this.colours.ink;
    context.lineWidth = 1.5;
    context.strokeRect(low, 1, high - low, 32);
    context.fillStyle = this.colours.soft;
    context.font = "11.5px " + getComputedStyle(document.body).fontFamily;
    context.textBaseline = "middle";
    context.textAlign = "right";
    context.fillText(fitted(context, "all " + inWords(this.facts.end_s), x - 10), x - 8, 17);
    context.textAlign = "left";
  }

  moment(x) { return this.from + (x - this.gutter) / this.room * (this.to - this.from); }

  listen() {
    const canvas = this.canvas, at = event => event.clientX - canvas.getBoundingClientRect().left;
    canvas.addEventListener("pointerdown", event => {
      if (event.button > 0) return;
      canvas.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, at(event));
      if (event.pointerType === "mouse" && !event.shiftKey) this.selecting = [at(event), at(event)];
      this.hint(null);
    });
    canvas.addEventListener("pointermove", event => {
      if (!this.pointers.has(event.pointerId)) return this.hint(event);
      if (this.selecting) { this.selecting[1] = at(event); return this.draw(); }
      const before = [...this.pointers.values()];
      this.pointers.set(event.pointerId, at(event));
      this.drag(before, [...this.pointers.values()]);
    });
    const released = event => {
      if (this.selecting && event.type === "pointerup" && Math.abs(this.selecting[1] - this.selecting[0]) > 4) {
        const [a, b] = this.selecting.map(x => this.moment(x)).sort((one, other) => one - other);
        this.selecting = null;
        this.show(a, b);
      }
      this.selecting = null;
      this.pointers.delete(event.pointerId);
      this.draw();
    };
    canvas.addEventListener("pointerup", released);
    canvas.addEventListener("pointercancel", released);
    canvas.addEventListener("pointerleave", () => this.hint(null));
    canvas.addEventListener("dblclick", () => this.show(0, this.facts.end_s));
    canvas.addEventListener("wheel", event => {
      if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(event.deltaY * 0.004), this.moment(at(event)));
      else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan(event.deltaX / this.room);
      else return; // the page scrolls
      event.preventDefault();
    }, { passive: false });
    canvas.addEventListener("keydown", event => {
      const does = { ArrowLeft: () => this.pan(-0.2), ArrowRight: () => this.pan(0.2), "+": () => this.zoom(0.5), "-": () => this.zoom(2),
        0: () => this.show(0, this.facts.end_s) }[event.key];
      if (does) { does(); event.preventDefault(); }
    });
    const choose = event => {
      const share = (event.clientX - this.overview.getBoundingClientRect().left - this.gutter) / this.room;
      const half = (this.to - this.from) / 2, middle = share * this.facts.end_s;
      this.show(middle - half, middle + half);
    };
    this.overview.addEventListener("pointerdown", event => { this.overview.setPointerCapture(event.pointerId); choose(event); });
    this.overview.addEventListener("pointermove", event => { if (event.buttons) choose(event); });
    for (const button of this.place.querySelectorAll("button[data-window]")) {
      button.addEventListener("click", () => this.show(...JSON.parse(button.dataset.window)));
    }
    for (const button of this.place.querySelectorAll("button[data-zoom]")) {
      button.addEventListener("click", () => this.zoom(Number(button.dataset.zoom)));
    }
  }

  // One finger moves, two stretch.
  drag(before, after) {
    const [a, b] = [Math.min(...before), Math.max(...before)], [c, d] = [Math.min(...after), Math.max(...after)];
    const scale = (this.to - this.from) / this.room;
    const stretch = before.length > 1 && d - c > 1 ? (b - a) / (d - c) : 1;
    const held = this.moment((a + b) / 2), from = held - ((c + d) / 2 - this.gutter) * scale * stretch;
    this.show(from, from + (this.to - this.from) * stretch);
  }

  hint(event) {
    const box = this.canvas.getBoundingClientRect();
    const said = event && this.described(event.clientX - box.left, event.clientY - box.top);
    this.tip.hidden = !said;
    if (!said) return;
    this.tip.textContent = said; // text: a name is never markup
    const place = this.place.getBoundingClientRect();
    const x = Math.min(event.clientX - place.left + 14, place.width - this.tip.offsetWidth - 6);
    this.tip.style.left = Math.max(4, x) + "px";
    this.tip.style.top = event.clientY - place.top + 18 + "px";
  }

  described(x, y) {
    const at = this.moment(x), lanes = this.facts.lanes.length;
    if (x < this.gutter || y < TOP) return "";
    for (let row = 0; row < this.rows.length; row++) {
      const inside = y - this.top(row);
      if (inside < 0 || inside >= (row < lanes ? LANE : LINK)) continue;
      return row < lanes ? this.ofWorker(row, at, inside) : this.ofLink(row - lanes, at);
    }
    return "";
  }

  ofWorker(row, at, inside) {
    const line = this.states[row], name = this.facts.lanes[row].name, piece = this.covering(this.pieces, row, at);
    const iteration = this.covering(this.iterations, row, at);
    const within = iteration >= 0 ? "iteration " + this.iterations.iteration[iteration] : "";
    const joined = this.collectives && inside > STATE + 5 + PIECE ? this.covering(this.collectives, row, at) : -1;
    if (joined >= 0) {
      const { iteration, bucket, start, end } = this.collectives;
      const whose = "collective, iteration " + iteration[joined] + (bucket[joined] >= 0 ? ", bucket " + bucket[joined] : "");
      return [name, whose, inWords(end[joined] - start[joined]) + " from " + at_s(start[joined])].join("\n");
    }
    if (inside > STATE + 4 && piece >= 0) {
      const bucket = this.pieces.bucket[piece] >= 0 ? ", bucket " + this.pieces.bucket[piece] : "";
      return [name, this.facts.phases[this.pieces.phase[piece]] + ", iteration " + this.pieces.iteration[piece] + bucket,
        inWords(this.pieces.end[piece] - this.pieces.start[piece]) + " from " + at_s(this.pieces.start[piece])].join("\n");
    }
    if (at > line.end || line.bounds.length < 2) return "";
    const i = line.index(at), length = line.bounds[i + 1] - line.bounds[i];
    let what = this.facts.states[line.codes[i]];
    if (line.codes[i] === MIXED) {
      what = this.facts.states.map((state, kind) => Math.round((line.spent[kind][i + 1] - line.spent[kind][i]) / length * 100) + " % " + state).join(", ");
    }
    return [name + (within && " · " + within), what, inWords(length) + " from " + at_s(line.bounds[i])].join("\n");
  }

  ofLink(row, at) {
    const found = this.covering(this.messages, row, at), name = this.facts.links[row].name;
    if (found < 0 || !this.detailed()) return name;
    const { iteration, bucket, bytes, start, end } = this.messages;
    const whose = "iteration " + iteration[found] + (bucket[found] >= 0 ? ", bucket " + bucket[found] : "");
    return [name, whose + ", " + bytes[found].toLocaleString("en") + " bytes", inWords(end[found] - start[found]) + " from " + at_s(start[found])].join("\n");
  }

  // The last of a row's spans that covers a moment; -1: none.
  covering(spans, row, at) {
    const near = 2 * (this.to - this.from) / this.room; // a stroke may be thinner than a pointer
    const [first, last] = this.visible(spans, row, at, at + near);
    for (let i = last - 1; i >= first; i--) if (spans.start[i] <= at + near && spans.end[i] >= at - near) return i;
    return -1;
  }
}

function at_s(moment) { return moment.toFixed(moment < 1000 ? 4 : 2) + " s"; }

// The canvas's context, as sharp as the screen, one unit a pixel of the page.
function sized(canvas, width, height) {
  const sharp = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * sharp) || canvas.height !== Math.round(height * sharp)) {
    canvas.width = Math.round(width * sharp);
    canvas.height = Math.round(height * sharp);
    canvas.style.height = height + "px";
  }
  const context = canvas.getContext("2d");
  context.setTransform(sharp, 0, 0, sharp, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

function drawAxis(context, from, to, x, room, top, height, colours) {
  const wanted = (to - from) / Math.max(2, Math.floor(room / 90)), power = 10 ** Math.floor(Math.log10(wanted));
  const step = [1, 2, 5, 10].map(times => times * power).find(each => each >= wanted) || wanted;
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let tick = Math.ceil(from / step); tick * step <= to; tick++) {
    const at = x + (tick * step - from) / (to - from) * room;
    context.fillStyle = colours.grid;
    context.fillRect(at, top - 4, 1, height - top);
    context.fillStyle = colours.soft;
    const text = (tick * step).toFixed(digits) + " s", half = context.measureText(text).width / 2;
    if (at - half >= x - 4 && at + half <= x + room) context.fillText(text, at, top - 13);
  }
  context.textAlign = "left";
}

// `text`, cut so that it fits into so many pixels.
function fitted(context, text, pixels) {
  if (context.measureText(text).width <= pixels) return text;
  let end = text.length;
  while (end > 1 && context.measureText(text.slice(0, end) + "…").width > pixels) end--;
  return text.slice(0, end) + "…";
}

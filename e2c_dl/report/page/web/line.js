// One worker's states, or one link's being busy: what holds between bounds; of a mixed step, the share of each kind.
const MIXED = 254, WHOLE = 255;

class Line {
  constructor(bounds, codes, shares, kinds) {
    this.bounds = bounds;
    this.codes = codes;
    this.kinds = kinds;
    this.spent = Array.from({ length: kinds }, () => new Float64Array(bounds.length)); // of each kind, up to a bound
    let share = 0;
    for (let i = 0; i + 1 < bounds.length; i++) {
      const length = bounds[i + 1] - bounds[i];
      let left = length;
      for (let kind = 0; kind < kinds; kind++) {
        let own = codes[i] === kind ? length : 0;
        if (codes[i] === MIXED) {
          own = kind + 1 < kinds ? length * shares[share++] / WHOLE : left;
          left -= own;
        }
        this.spent[kind][i + 1] = this.spent[kind][i] + own;
      }
    }
  }

  get end() { return this.bounds.length ? this.bounds[this.bounds.length - 1] : 0; }

  index(at) { return lastUpTo(this.bounds, at, 0, this.bounds.length - 1); }

  // Time spent on `kind` up to moment `at`, which lies behind bound i.
  upTo(kind, at, i) {
    const low = this.bounds[i], high = this.bounds[i + 1], own = this.spent[kind];
    return high > low ? own[i] + (own[i + 1] - own[i]) * Math.min(1, Math.max(0, (at - low) / (high - low))) : own[i];
  }

  // Draws the line between moments from and to at x .. x + width: colours[kind], null: nothing.
  draw(context, from, to, x, y, width, height, colours) {
    if (this.bounds.length < 2) return;
    const first = this.index(from), last = this.index(to);
    if (last - first < width / 3 && !this.mixed(first, last)) this.whole(context, first, last, from, to, x, y, width, height, colours);
    else this.byPixel(context, from, to, x, y, width, height, colours);
  }

  mixed(first, last) {
    for (let i = first; i <= last; i++) if (this.codes[i] === MIXED) return true;
    return false;
  }

  whole(context, first, last, from, to, x, y, width, height, colours) {
    const scale = width / (to - from);
    for (let i = first; i <= last && i + 1 < this.bounds.length; i++) {
      const colour = colours[this.codes[i]];
      const begin = Math.max(from, this.bounds[i]), end = Math.min(to, this.bounds[i + 1]);
      if (!colour || end <= begin) continue;
      context.fillStyle = colour;
      context.fillRect(x + (begin - from) * scale, y, Math.max(0.5, (end - begin) * scale), height);
    }
  }

  byPixel(context, from, to, x, y, width, height, colours) {
    const step = (to - from) / width;
    let i = this.index(from);
    for (let pixel = 0; pixel < width; pixel++) {
      const begin = from + pixel * step, end = begin + step;
      if (begin >= this.end) return;
      while (i + 2 < this.bounds.length && this.bounds[i + 1] <= begin) i++;
      if (this.bounds[i + 1] >= end && this.codes[i] !== MIXED) { // one kind: as far as it goes
        const pixels = Math.max(1, Math.min(width - pixel, Math.floor((this.bounds[i + 1] - begin) / step)));
        const colour = colours[this.codes[i]];
        if (colour) { context.fillStyle = colour; context.fillRect(x + pixel, y, pixels, height); }
        pixel += pixels - 1;
        continue;
      }
      let j = i;
      while (j + 2 < this.bounds.length && this.bounds[j + 1] < end) j++;
      let bottom = y + height;
      for (let kind = 0; kind < this.kinds; kind++) {
        const share = (this.upTo(kind, end, j) - this.upTo(kind, begin, i)) / step;
        if (share <= 0.004) continue;
        if (colours[kind]) { context.fillStyle = colours[kind]; context.fillRect(x + pixel, bottom - share * height, 1, share * height); }
        bottom -= share * height;
      }
    }
  }
}

// All lines packed under `name`, one after another.
function unpackedLines(name, columns, tick, kinds) {
  const first = columns[name + "_first"], bounds = seconds(columns[name + "_bounds"], tick);
  const codes = columns[name + "_codes"], shares = columns[name + "_shares"];
  const lines = [];
  let used = 0;
  for (let row = 0; row + 1 < first.length; row++) {
    const own = codes.subarray(first[row], first[row + 1]);
    let mixed = 0;
    for (const code of own) if (code === MIXED) mixed++;
    const until = used + mixed * (kinds - 1);
    lines.push(new Line(bounds.subarray(first[row], first[row + 1]), own, shares.subarray(used, until), kinds));
    used = until;
  }
  return lines;
}

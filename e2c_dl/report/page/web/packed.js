// Opens what e2c_dl/report/page/packed.py packed: {facts, columns}.
async function unpacked(name) {
  const text = document.getElementById(name + "-data").textContent;
  const bytes = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
  const opened = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const content = await new Response(opened).arrayBuffer();
  const length = new DataView(content).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(content, 4, length)));
  const arrays = { Uint8Array, Uint16Array, Int16Array, Int32Array, Uint32Array, Float32Array, Float64Array };
  const columns = {};
  for (const [key, [type, offset, count]] of Object.entries(header.columns)) {
    columns[key] = new arrays[type](content, 4 + length + offset, count);
  }
  return { facts: header.facts, columns };
}

// Seconds, of differences in ticks.
function seconds(differences, tick) {
  const made = new Float64Array(differences.length);
  for (let i = 0, at = 0; i < made.length; i++) { at += differences[i]; made[i] = at * tick; }
  return made;
}

// The sums so far, of differences.
function summed(differences) {
  const made = new Int32Array(differences.length);
  for (let i = 0, at = 0; i < made.length; i++) { at += differences[i]; made[i] = at; }
  return made;
}

// The last i in [low, high) with values[i] <= at; low if there is none.
function lastUpTo(values, at, low, high) {
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (values[middle] <= at) low = middle; else high = middle;
  }
  return low;
}

// As formatting.seconds says it: three digits and a unit. Bounds are where rounding would show a fourth digit.
function inWords(s) {
  const size = Math.abs(s), digits = value => value.toFixed(Math.abs(value) < 9.995 ? 2 : Math.abs(value) < 99.95 ? 1 : 0);
  if (size === 0) return "0 s";
  if (size >= 3600) return Math.floor(s / 3600) + " h " + String(Math.floor(s % 3600 / 60)).padStart(2, "0") + " min";
  if (size >= 1 - 0.5e-3) return digits(s) + " s";
  return size >= 1e-3 - 0.5e-6 ? digits(s * 1e3) + " ms" : digits(s * 1e6) + " µs";
}

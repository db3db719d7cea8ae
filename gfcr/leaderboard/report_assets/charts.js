// Charts in plain SVG. Each takes a host element and draws itself again when the width changes.

const SVG = "http://www.w3.org/2000/svg";

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  return fill(node, attributes, children);
}

function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

function short(value) {
  if (value === null || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e9) return trim(value / 1e9) + "B";
  if (size >= 1e6) return trim(value / 1e6) + "M";
  if (size >= 1e4) return trim(value / 1e3) + "k";
  if (size >= 100 || Number.isInteger(value)) return String(Math.round(value));
  return String(Number(value.toPrecision(3)));
}

function trim(value) {
  return String(Number(value.toFixed(Math.abs(value) < 10 ? 2 : 1)));
}

function ticks(low, high, count) {
  if (low === high) return [low];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) {
    found.push(Number((i * step).toPrecision(12)));
  }
  return found;
}

function scale([low, high], [from, to]) {
  const span = high - low || 1;
  return (value) => from + ((value - low) / span) * (to - from);
}

function extent(values, pad) {
  const known = values.filter((v) => v !== null && Number.isFinite(v));
  if (!known.length) return [0, 1];
  const low = Math.min(...known), high = Math.max(...known);
  const room = (high - low || Math.abs(high) || 1) * pad;
  return [low - room, high + room];
}

// Where a curve [[x, y], ...] stands at x, by straight lines between its points.
function at(curve, x) {
  let i = curve.findIndex((point) => point[0] >= x);
  if (i < 0) return curve[curve.length - 1][1];
  if (i === 0 || curve[i][0] === x) return curve[i][1];
  const [[x0, y0], [x1, y1]] = [curve[i - 1], curve[i]];
  return y0 + ((y1 - y0) * (x - x0)) / (x1 - x0);
}

// Mean, lowest and highest of several seeds' curves, over the stretch that all of them cover.
function summarise(curves) {
  const low = Math.max(...curves.map((c) => c[0][0]));
  const high = Math.min(...curves.map((c) => c[c.length - 1][0]));
  const own = [...new Set(curves.flat().map((p) => p[0]))].filter((x) => x >= low && x <= high);
  own.sort((a, b) => a - b);
  const xs = own.length <= 200 ? own : Array.from({ length: 200 }, (_, i) => low + ((high - low) * i) / 199);
  return xs.map((x) => {
    const ys = curves.map((curve) => at(curve, x));
    return { x, mean: ys.reduce((a, b) => a + b, 0) / ys.length, low: Math.min(...ys), high: Math.max(...ys) };
  });
}

function responsive(host, paint) {
  let width = 0;
  const again = () => {
    if (host.clientWidth === width) return;
    width = host.clientWidth;
    host.replaceChildren(paint(Math.max(width, 260)));
  };
  new ResizeObserver(again).observe(host);
  return () => { width = 0; again(); };
}

function axes(box, x, y, labels) {
  const group = draw("g");
  for (const value of y.ticks) {
    const py = y.to(value);
    group.append(draw("line", { class: "grid", x1: box.left, x2: box.right, y1: py, y2: py }));
    group.append(draw("text", { x: box.left - 8, y: py + 4, "text-anchor": "end" }, short(value)));
  }
  for (const value of x.ticks) {
    group.append(draw("text", { x: x.to(value), y: box.bottom + 18, "text-anchor": "middle" }, short(value)));
  }
  group.append(draw("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
  group.append(draw("text", { x: box.right, y: box.bottom + 36, "text-anchor": "end" }, labels.x));
  group.append(draw("text", { x: 0, y: 10 }, labels.y));
  return group;
}

function frame(width, height, left) {
  return { left, right: width - 14, top: 24, bottom: height - 42 };
}

// lines: [{name, color, dash, base, curves}], those with `base` thick and on top. Pointer or arrow keys move a cross-hair over the values.
function lineChart(width, { lines, labels, title }) {
  const height = 320, box = frame(width, height, 52);
  const drawn = lines.map((line) => ({ ...line, points: summarise(line.curves) })).filter((l) => l.points.length)
    .sort((a, b) => a.base - b.base);
  const all = drawn.flatMap((line) => line.points);
  const xs = extent(all.map((p) => p.x), 0), ys = extent(all.flatMap((p) => [p.low, p.high]), 0.05);
  const whole = all.every((p) => Number.isInteger(p.x)); // There is no half an update.
  const x = { to: scale(xs, [box.left, box.right]), ticks: ticks(...xs, width / 110).filter((v) => !whole || Number.isInteger(v)) };
  const y = { to: scale(ys, [box.bottom, box.top]), ticks: ticks(...ys, 5) };
  const root = draw("svg", { height, viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "img", "aria-label": title });
  root.append(axes(box, x, y, labels));
  const shade = Math.min(0.14, 0.7 / drawn.length); // Many bands on each other hide the lines.
  for (const { name, points, color, dash, base, curves } of drawn) {
    const path = (key) => points.map((p) => `${x.to(p.x).toFixed(1)},${y.to(p[key]).toFixed(1)}`);
    if (curves.length > 1) {
      root.append(draw("polygon", { points: [...path("high"), ...path("low").reverse()].join(" "), fill: color, opacity: shade }));
    }
    root.append(draw("polyline", {
      points: path("mean").join(" "), fill: "none", stroke: color, "stroke-width": base ? 4 : 2, "stroke-dasharray": dash, "data-arm": name,
      "stroke-linejoin": "round", "stroke-linecap": "round",
    }));
  }
  crossHair(root, { drawn, x, y, box, xs, labels });
  return root;
}

function crossHair(root, { drawn, x, y, box, xs, labels }) {
  const layer = draw("g", { visibility: "hidden" });
  root.append(layer);
  let now = xs[1];
  const show = (value) => {
    now = Math.min(Math.max(value, xs[0]), xs[1]);
    const px = x.to(now);
    layer.replaceChildren(draw("line", { class: "cross", x1: px, x2: px, y1: box.top, y2: box.bottom }));
    const reached = drawn.filter((line) => now <= line.points[line.points.length - 1].x + 1e-9);
    const values = reached.map((line) => ({ line, value: at(line.points.map((p) => [p.x, p.mean]), now) }));
    values.sort((a, b) => b.value - a.value);
    for (const { line, value } of values) {
      layer.append(draw("circle", { class: "mark", cx: px, cy: y.to(value), r: 5, fill: line.color }));
    }
    layer.setAttribute("visibility", "visible");
    const rows = values.map(({ line, value }) => [line.name, short(value), line]);
    showTip(`${short(now)} ${labels.x}`, rows, root, px, box.top);
  };
  const hide = () => { layer.setAttribute("visibility", "hidden"); hideTip(); };
  root.addEventListener("pointermove", (event) => {
    const place = root.getBoundingClientRect();
    const share = (event.clientX - place.left - box.left) / (box.right - box.left);
    show(xs[0] + share * (xs[1] - xs[0]));
  });
  root.addEventListener("pointerleave", hide);
  root.addEventListener("blur", hide);
  root.addEventListener("keydown", (event) => {
    const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!way) return;
    event.preventDefault();
    show(now + (way * (xs[1] - xs[0])) / 40);
  });
}

// bars: [{name, parts: [{name, value, color}]}]
function stackedBars(width, { bars, title }) {
  const step = 46, height = bars.length * step + 44, box = { left: 0, right: width - 14, top: 0, bottom: height - 42 };
  const total = (bar) => bar.parts.reduce((sum, part) => sum + part.value, 0);
  const xs = [0, Math.max(...bars.map(total), 1)];
  const to = scale(xs, [box.left, box.right]);
  const root = draw("svg", { height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": title });
  for (const value of ticks(...xs, width / 110)) {
    root.append(draw("line", { class: "grid", x1: to(value), x2: to(value), y1: 0, y2: box.bottom }));
    root.append(draw("text", { x: to(value), y: box.bottom + 18, "text-anchor": value ? "middle" : "start" }, short(value)));
  }
  root.append(draw("text", { x: box.right, y: box.bottom + 36, "text-anchor": "end" }, "generated tokens per run"));
  bars.forEach((bar, i) => {
    let from = 0;
    root.append(draw("text", { class: "name", x: 0, y: i * step + 14 }, bar.name));
    for (const part of bar.parts.filter((p) => p.value > 0)) {
      const rows = [[part.name, `${short(part.value)} (${((100 * part.value) / total(bar)).toFixed(1)} %)`, part]];
      const px = to(from), py = i * step + 20;
      const show = () => showTip(bar.name, rows, root, px + 8, py);
      root.append(draw("rect", {
        x: px, y: py, width: Math.max(to(from + part.value) - px - 2, 1), height: 18, rx: 3, fill: part.color,
        tabindex: 0, role: "img", "aria-label": `${bar.name}, ${rows[0][0]}: ${rows[0][1]}`,
        onpointerenter: show, onpointerleave: hideTip, onfocus: show, onblur: hideTip,
      }));
      from += part.value;
    }
  });
  return root;
}

// points: [{name, x, y, low, high, color}]; less x and more y is better.
function scatter(width, { points, labels, title }) {
  const height = 380, box = frame(width, height, 52);
  const xs = extent(points.map((p) => p.x), 0.12), ys = extent(points.flatMap((p) => [p.y, p.low, p.high]), 0.08);
  const x = { to: scale(xs, [box.left, box.right]), ticks: ticks(...xs, width / 110) };
  const y = { to: scale(ys, [box.bottom, box.top]), ticks: ticks(...ys, 5) };
  const root = draw("svg", { height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": title });
  root.append(axes(box, x, y, labels));
  const front = [...points].sort((a, b) => a.x - b.x || b.y - a.y)
    .filter((p, i, sorted) => sorted.slice(0, i).every((q) => q.y < p.y));
  const steps = front.map((p, i) => (i ? `H${x.to(p.x)} V${y.to(p.y)}` : `M${x.to(p.x)},${y.to(p.y)}`)).join(" ");
  root.append(draw("path", { d: steps, fill: "none", stroke: "var(--neutral)", "stroke-width": 1.5 }));
  const spots = points.map((p) => ({ ...p, px: x.to(p.x), py: y.to(p.y) }));
  for (const { px, low, high, color } of spots) {
    if (low !== null) root.append(draw("line", { x1: px, x2: px, y1: y.to(low), y2: y.to(high), stroke: color, "stroke-width": 2, opacity: 0.35 }));
  }
  const leaders = draw("g"), dots = draw("g"), words = draw("g");
  root.append(leaders, dots, words);
  const taken = spots.map(({ px, py }) => around(px, py, 8, 8));
  for (const p of [...spots].sort((a, b) => a.py - b.py)) {
    const rows = [[labels.y, short(p.y)], [labels.x, short(p.x)]];
    const show = () => showTip(p.name, rows, root, p.px + 10, p.py);
    dots.append(draw("circle", {
      class: "mark", cx: p.px, cy: p.py, r: 7, fill: p.color, tabindex: 0, role: "img",
      "aria-label": `${p.name}: ${rows.map((r) => r.join(" ")).join(", ")}`,
      onpointerenter: show, onpointerleave: hideTip, onfocus: show, onblur: hideTip,
    }));
    const spot = spotFor(p, box, taken);
    taken.push(spot);
    const near = { x: Math.min(Math.max(p.px, spot.left), spot.right), y: (spot.top + spot.bottom) / 2 };
    if (Math.hypot(near.x - p.px, near.y - p.py) > 16) {
      leaders.append(draw("line", { class: "leader", x1: p.px, y1: p.py, x2: near.x, y2: near.y }));
    }
    words.append(draw("text", { class: "name", x: spot.left, y: spot.bottom - 3 }, p.name));
  }
  return root;
}

function around(px, py, wide, high) {
  return { left: px - wide, right: px + wide, top: py - high, bottom: py + high };
}

// The place nearest to a point for its name, clear of the chart's edges and of what is taken. In a
// chart so full that there is none, the one that meets the least.
function spotFor({ px, py, name }, box, taken) {
  const wide = 3.6 * name.length + 2, meets = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  const spots = [];
  for (let down = 0; down <= box.bottom - box.top; down += 4) {
    for (let aside = 0; aside <= 160; aside += 8) {
      for (const [dx, dy] of [[1, 1], [-1, 1], [1, -1], [-1, -1]]) {
        const spot = around(px + dx * (wide + 11 + aside), py + dy * down, wide, 8);
        spots.push({ ...spot, far: Math.hypot(down * 1.3, aside) + 2 * (dx < 0) });
      }
    }
  }
  const inside = spots.filter((s) => s.left > box.left && s.right < box.right + 12 && s.top > 14 && s.bottom < box.bottom);
  inside.sort((a, b) => a.far - b.far);
  const clashes = (s) => taken.filter((t) => meets(s, t)).length;
  return inside.find((s) => !clashes(s)) || inside.sort((a, b) => clashes(a) - clashes(b))[0] || spots[0];
}

// A square of the colour; a piece of the line where there is a `dash` (null: an unbroken line).
function swatch({ color, dash }) {
  if (dash === undefined) return make("span", { class: "swatch", style: `background:${color}` });
  const [on, off] = (dash || "1 0").split(" ").map(Number);
  const pattern = `repeating-linear-gradient(90deg, ${color} 0 ${on}px, transparent ${on}px ${on + off}px)`;
  return make("span", { class: "swatch line", style: `background:${pattern}` });
}

function showTip(title, rows, root, x, y) {
  const tip = document.getElementById("tip");
  tip.replaceChildren(make("b", {}, title), ...rows.map(([name, value, look]) => {
    const mark = look ? [swatch(look)] : [];
    return make("div", {}, make("span", {}, ...mark, name), make("span", {}, value));
  }));
  tip.hidden = false;
  const place = root.getBoundingClientRect();
  const left = place.left + x + 14;
  tip.style.left = `${left + tip.offsetWidth > innerWidth - 8 ? Math.max(left - tip.offsetWidth - 28, 8) : left}px`;
  tip.style.top = `${Math.max(place.top + y, 8)}px`;
}

function hideTip() {
  document.getElementById("tip").hidden = true;
}

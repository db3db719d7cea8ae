// Each arm's difference from the baseline with its intervals, above the band of differences that would not matter.

// rows: [{name, color, delta, verdict, told}]; margin: half width of the band; zero: what 0 stands for.
function forest(width, { rows, margin, zero, unit, title }) {
  const narrow = width < 640, step = narrow ? 46 : 30, top = 42;
  const widest = Math.max(0, ...rows.map((row) => row.name.length)) * 7.6 + 26;
  const box = narrow
    ? { left: 8, right: width - 8, top, bottom: top + rows.length * step }
    : { left: Math.min(Math.max(widest, 90), width / 3), right: width - 292, top, bottom: top + rows.length * step };
  const ends = rows.flatMap(({ delta }) => [delta.value, delta.low, delta.high, delta.inner_low, delta.inner_high]);
  const xs = extent([...ends, -margin, margin, 0], 0.06);
  const to = scale(xs, [box.left, box.right]), height = box.bottom + 44;
  const root = draw("svg", { height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": title });
  root.append(draw("rect", { class: "band", x: to(-margin), y: top - 6, width: to(margin) - to(-margin), height: box.bottom - top + 6 }));
  for (const value of ticks(...xs, (box.right - box.left) / 90)) {
    root.append(draw("line", { class: "grid", x1: to(value), x2: to(value), y1: top - 6, y2: box.bottom }));
    root.append(draw("text", { x: to(value), y: box.bottom + 18, "text-anchor": "middle" }, signed(value)));
  }
  root.append(draw("line", { class: "zero", x1: to(0), x2: to(0), y1: top - 6, y2: box.bottom }));
  const near = Math.min(Math.max(to(0), box.left + 70), box.right - 70);
  root.append(draw("text", { class: "strong", x: near, y: 12, "text-anchor": "middle" }, zero));
  root.append(draw("text", { x: near, y: 28, "text-anchor": "middle" }, `±${short(margin)} does not matter`));
  root.append(draw("text", { x: box.right, y: box.bottom + 37, "text-anchor": "end" }, unit));
  rows.forEach((row, i) => root.append(forestRow(row, { to, box, narrow, width, y: top + i * step + step / 2 })));
  return root;
}

function forestRow(row, { to, box, narrow, width, y }) {
  const { delta } = row, line = narrow ? y + 12 : y;
  // An interval without limits goes through the whole chart.
  const [low, high] = [delta.low === null ? box.left : to(delta.low), delta.high === null ? box.right : to(delta.high)];
  const limits = [delta.low === null ? "−∞" : signed(delta.low, 3), delta.high === null ? "∞" : signed(delta.high, 3)];
  const number = `${signed(delta.value, 3)} [${limits.join(", ")}]`;
  const group = draw("g", { class: "row", tabindex: 0, role: "img", "aria-label": `${row.name}: ${number}, ${row.verdict}` });
  const bar = (from, until, wide) => group.append(draw("line", {
    x1: from, x2: until, y1: line, y2: line, stroke: row.color, "stroke-width": wide, "stroke-linecap": "butt",
  }));
  group.append(draw("rect", { class: "lane", x: 0, y: y - (narrow ? 23 : 15), width, height: narrow ? 46 : 30 }));
  bar(low, high, 2);
  if (delta.inner_low !== null) bar(to(delta.inner_low), to(delta.inner_high), 6);
  group.append(draw("circle", { class: "mark", cx: to(delta.value), cy: line, r: 6, fill: row.color }));
  const above = y - 8, name = narrow ? { x: 8, y: above } : { x: box.left - 14, y: y + 4, "text-anchor": "end" };
  group.append(draw("text", { class: "name", ...name }, row.name));
  const told = narrow ? { x: width - 8, y: above, "text-anchor": "end" } : { x: box.right + 18, y: y + 4 };
  group.append(draw("text", { class: "figures", ...told },
    draw("tspan", {}, narrow ? `${signed(delta.value, 3)} ` : `${number}  `), draw("tspan", { class: `word ${row.verdict}` }, row.verdict)));
  const rows = [["95 % interval", limits.join(" to ")], ...row.told];
  const show = () => showTip(`${row.name}: ${row.verdict}`, rows, group.ownerSVGElement, to(delta.value), line + 10);
  for (const way of ["pointerenter", "focus"]) group.addEventListener(way, show);
  for (const way of ["pointerleave", "blur"]) group.addEventListener(way, hideTip);
  return group;
}

function signed(value, digits) {
  const text = digits ? Math.abs(value).toFixed(digits) : short(Math.abs(value));
  return Number(text) === 0 ? text : `${value < 0 ? "−" : "+"}${text}`;
}

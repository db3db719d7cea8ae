// Fills the page from the embedded leaderboard.

const board = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const names = board.rows.map((row) => row.arm).sort();
const look = (arm) => {
  const i = names.indexOf(arm);
  return { color: `var(--c${i % 8})`, dash: [null, "6 4", "2 4"][Math.floor(i / 8) % 3] };
};
const fixed = (value, digits = 3) => (value === null ? "–" : value.toFixed(digits));
const percent = (value) => (value === null ? "–" : `${Math.round(100 * value)} %`);

function lead() {
  if (!board.rows.length) return "No run of this study can be ranked yet.";
  const best = board.rows[0];
  const told = (verdict) => board.rows.filter((row) => row.verdict === verdict).length;
  const of = best.rank === null ? "No arm can be ranked; " : "";
  const first = `${of}${best.arm} has the highest held-out score, ${fixed(best.score.value)}, from ${fixed(best.before)} before training.`;
  if (!board.baseline) return first;
  const parts = ["better", "worse", "equivalent", "inconclusive"].map((v) => [told(v), v]).filter(([n]) => n);
  return `${first} Against ${board.baseline}: ${parts.map(([n, v]) => `${n} ${v}`).join(", ") || "nothing to compare"}.`;
}

// How the cells of some columns look; the table itself, its columns and texts, is made by gfcr.
const chip = (text) => [make("span", { class: `chip ${text}` }, text)];
const LOOKS = { arm: (text) => [swatch(look(text)), text], verdict: chip, certificate: chip };
// An interval, or how many runs got there, stands below its number.
const lines = (text) => {
  const [, number, rest] = /^(\S+) ([[(].*)$/.exec(text) || [null, text, null];
  return rest ? [number, make("small", {}, rest)] : [number];
};
const COLUMNS = board.heads.map(({ name }, i) => ({
  name: name === "#" ? "Rank" : name[0].toUpperCase() + name.slice(1),
  head: name === "arm",
  first: name === "#" ? 1 : -1,
  key: (row) => (row.cells[i].text === "" ? null : row.cells[i].key),
  show: (row) => {
    if (name === "difference" && row.verdict === "baseline") return ["baseline"];
    const { text } = row.cells[i];
    return text === "" ? ["–"] : (LOOKS[name] || lines)(text);
  },
}));

// What the filter looks for words in.
const about = (row) => [row.strategy, row.verdict, row.certificate, ...Object.values(row.stages), ...row.cells.map((cell) => cell.text)]
  .join(" ").toLowerCase();

function table() {
  const filter = byId("filter");
  let latest = [];
  const body = make("tbody");
  const heads = COLUMNS.map((column) => make("th", { scope: "col", "aria-sort": "none", class: column.head ? "name" : null },
    make("button", { type: "button", onclick: () => sort(column) }, column.name)));
  function sort(column) {
    const head = heads[COLUMNS.indexOf(column)];
    const now = head.getAttribute("aria-sort");
    const up = now === "none" ? column.first === 1 : now === "descending";
    for (const other of heads) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    latest = sorted(column, up ? 1 : -1);
    fillBody(latest);
  }
  function sorted(column, way) {
    return [...board.rows].sort((a, b) => {
      const [x, y] = [column.key(a), column.key(b)];
      // What is not known comes last, whichever way.
      if (x === null || y === null) return (x === null) - (y === null);
      return way * (typeof x === "string" ? x.localeCompare(y) : x - y);
    });
  }
  function fillBody(sortedRows) {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = sortedRows.filter((row) => words.every((word) => about(row).includes(word)));
    byId("shown").textContent = words.length ? `${rows.length} of ${board.rows.length} arms` : "";
    body.replaceChildren(...rows.map((row) => make("tr", {}, ...COLUMNS.map((column) =>
      make(column.head ? "th" : "td", column.head ? { scope: "row", class: "name" } : {}, ...column.show(row))))));
  }
  byId("arms").append(make("thead", {}, make("tr", {}, ...heads)), body);
  filter.addEventListener("input", () => fillBody(latest));
  sort(COLUMNS[0]);
}

function choice(options, label, onchange) {
  const group = make("div", { class: "group", role: "group", "aria-label": label });
  const press = (chosen) => {
    for (const button of group.children) button.setAttribute("aria-pressed", String(button.textContent === chosen));
    onchange(chosen);
  };
  for (const option of options) group.append(make("button", { type: "button", onclick: () => press(option) }, option));
  group.firstChild.setAttribute("aria-pressed", "true");
  return group;
}

function armLegend(hidden, again) {
  return make("div", { class: "legend", role: "group", "aria-label": "arms shown" }, ...names.map((name) => {
    const button = make("button", { type: "button", "aria-pressed": "true" }, swatch(look(name)), name);
    button.addEventListener("click", () => {
      if (!hidden.delete(name)) hidden.add(name);
      button.setAttribute("aria-pressed", String(!hidden.has(name)));
      again();
    });
    return button;
  }));
}

function linesOf(curvesOf, hidden) {
  return board.rows.filter((row) => !hidden.has(row.arm))
    .map((row) => ({ name: row.arm, ...look(row.arm), curves: Object.values(curvesOf(row)).filter((c) => c.length) }))
    .filter((line) => line.curves.length);
}

function lineSection(section, control, paint) {
  const hidden = new Set(), host = make("div");
  const again = responsive(host, (width) => lineChart(width, paint(hidden)));
  section.append(make("div", { class: "controls" }, control(again), armLegend(hidden, again)), host);
}

function curves() {
  if (!board.rows.some((row) => Object.values(row.curves).some((curve) => curve.length))) return byId("curves").remove();
  const axis = { updates: 0, "generated tokens": 1, seconds: 2 };
  let by = "updates";
  const pick = (curve) => curve.map((point) => [point[axis[by]], point[3]]).filter((p) => p.every((v) => v !== null));
  lineSection(
    byId("curves"),
    (again) => choice(Object.keys(axis), "horizontal axis", (chosen) => { by = chosen; again(); }),
    (hidden) => ({
      lines: linesOf((row) => Object.fromEntries(Object.entries(row.curves).map(([s, c]) => [s, pick(c)])), hidden),
      labels: { x: by, y: "held-out score" },
      title: `Held-out score against ${by}. Use the arrow keys to read values.`,
    }),
  );
}

function series() {
  const found = [...new Set(board.rows.flatMap((row) => Object.keys(row.series)))].sort();
  if (!found.length) return byId("series").remove();
  let metric = found.find((name) => name === "length/all/mean") || found[0];
  lineSection(
    byId("series"),
    (again) => {
      const select = make("select", { "aria-label": "metric", onchange: () => { metric = select.value; again(); } },
        ...found.map((name) => make("option", { value: name }, name)));
      select.value = metric;
      return select;
    },
    (hidden) => ({
      lines: linesOf((row) => row.series[metric] || {}, hidden),
      labels: { x: "updates", y: metric },
      title: `${metric} over updates. Use the arrow keys to read values.`,
    }),
  );
}

function ledger() {
  const bins = [...new Set(board.rows.flatMap((row) => Object.keys(row.cost.ledger)))];
  if (!bins.length) return byId("ledger").remove();
  const rank = (bin) => { const i = ["trained", "replayed"].indexOf(bin); return i < 0 ? (bin === "evaluation" ? 9 : 5) : i; };
  bins.sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
  const own = { trained: "var(--c0)", replayed: "var(--c2)", evaluation: "var(--neutral)" };
  const others = bins.filter((bin) => !own[bin]);
  const color = (bin) => own[bin] || `var(--c${[1, 4, 5, 3, 6, 7][others.indexOf(bin) % 6]})`;
  const bars = board.rows.map((row) => ({
    name: row.arm, parts: bins.map((bin) => ({ name: bin, value: row.cost.ledger[bin] || 0, color: color(bin) })),
  }));
  const host = make("div");
  byId("ledger").append(make("div", { class: "controls legend" }, ...bins.map((bin) => make("span", {}, swatch({ color: color(bin) }), bin))), host);
  responsive(host, (width) => stackedBars(width, { bars, title: "Generated tokens by bin" }));
}

function pareto() {
  const axes = { "tokens for training": (r) => r.tokens, seconds: (r) => r.wall_s };
  const ranked = board.rows.filter((row) => row.rank !== null);
  let by = Object.keys(axes)[0];
  const pointsOf = () => ranked.filter((row) => axes[by](row) !== null).map((row) => ({
    name: row.arm, x: axes[by](row), y: row.score.value, low: row.score.low, high: row.score.high, ...look(row.arm),
  }));
  if (!pointsOf().length) return byId("pareto").remove();
  const host = make("div");
  const again = responsive(host, (width) => scatter(width, {
    points: pointsOf(), labels: { x: by, y: "held-out score" }, title: `Held-out score against ${by}`,
  }));
  const choose = choice(Object.keys(axes), "cost", (chosen) => { by = chosen; again(); });
  byId("pareto").append(make("div", { class: "controls" }, choose), host);
}

function profile() {
  const spread = board.rows.flatMap((row) => row.profile.share);
  if (!spread.length) return byId("profile").remove();
  // Where all runs are above, or none is, there is nothing to see.
  const told = board.rows[0].profile.thresholds.filter((_, i) =>
    board.rows.some((row) => row.profile.share[i] > 0 && row.profile.share[i] < 1));
  const [from, to] = told.length ? [told[0] - 0.04, told[told.length - 1] + 0.04] : [0, 1];
  const curve = (row, key) => row.profile.thresholds
    .map((tau, i) => [tau, row.profile[key][i]]).filter(([tau]) => tau >= from && tau <= to);
  lineSection(byId("profile"), () => make("span", {}), (hidden) => ({
    lines: board.rows.filter((row) => !hidden.has(row.arm)).map((row) => ({
      name: row.arm, ...look(row.arm), curves: [curve(row, "share")],
    })),
    labels: { x: "held-out score", y: "share of runs above" },
    title: "Share of runs above a held-out score. Use the arrow keys to read values.",
  }));
}

function detail() {
  for (const row of board.rows) {
    const delta = row.delta, aimed = row.to_target;
    const facts = {
      strategy: row.strategy, generate: row.stages.generate, filters: row.stages.filters,
      controls: row.stages.controls, replay: row.stages.replay, seeds: row.seeds.join(", "), "before training": fixed(row.before),
      "not ranked": row.unranked, "losslessness certificate": row.certificate,
      "interquartile mean": row.score.iqm_low !== null && `${fixed(row.score.iqm)} [${fixed(row.score.iqm_low)}, ${fixed(row.score.iqm_high)}]`,
      "p, corrected": delta.p_adjusted !== null && (delta.p_adjusted < 1e-4 ? "below 0.0001" : fixed(delta.p_adjusted, 4)),
      "chance that a run beats the baseline's": delta.improves !== null && percent(delta.improves),
      "difference these seeds could show": delta.detectable !== null && fixed(delta.detectable),
      [`runs that reached ${fixed(board.target)}`]: aimed && `${aimed.reached} of ${aimed.runs}`,
      "length generated, trained": row.bias.length && `${short(row.bias.length.generated)}, ${short(row.bias.length.trained)}`,
      "difficulty generated, trained": row.bias.difficulty && `${fixed(row.bias.difficulty.generated)}, ${fixed(row.bias.difficulty.trained)}`,
      "rollout tokens per second": row.cost.rollout_tokens_per_s && short(row.cost.rollout_tokens_per_s),
      ...row.provenance,
    };
    const list = make("dl");
    for (const [name, value] of Object.entries(facts)) if (value) list.append(make("dt", {}, name), make("dd", {}, value));
    byId("detail").append(make("details", {}, make("summary", {}, row.arm), list));
  }
}

function excluded() {
  if (!board.excluded.length) return byId("excluded").remove();
  byId("excluded").append(make("ul", {}, ...board.excluded.map((run) =>
    make("li", {}, `${run.arm}, seed ${run.seed} (${run.run_id}): ${run.reason}.`))));
}

byId("lead").textContent = lead();
byId("caption").textContent = board.caption;
byId("notes").append(...board.rows.flatMap((row) => row.notes.map((note) => make("li", {}, `${row.arm}: ${note}.`))));
table();
curves();
ledger();
pareto();
profile();
series();
detail();
excluded();

// Fills the page's sections from the embedded leaderboard.

function lead() {
  if (!board.rows.length) return "No run of this study can be ranked yet.";
  const best = board.rows[0];
  const told = (verdict) => board.rows.filter((row) => row.verdict === verdict).length;
  const whole = board.rows.every((row) => row.rank !== null);
  const of = best.rank === null ? "No arm can be ranked; " : whole ? "" : "Of the ranked arms, ";
  const lost = board.rows.some((row) => row.unscorable);  // ranks go by the floor
  const score = lost ? `${fixed(best.score.floor)} with unscorable answers at the lowest reward` : fixed(best.score.value);
  const first = `${of}${best.arm} has the highest held-out score, ${score}, from ${fixed(best.before)} before training.`;
  if (!board.baseline) return first;
  const parts = ["better", "worse", "equivalent", "inconclusive"].map((v) => [told(v), v]).filter(([n]) => n);
  return `${first} Against ${board.baseline}: ${parts.map(([n, v]) => `${n} ${v}`).join(", ") || "nothing to compare"}.`;
}

// Buttons of which one is pressed, and which one stands in the address under `key`.
function choice(key, options, label, onchange) {
  const group = make("div", { class: "group", role: "group", "aria-label": label });
  const press = (chosen) => {
    for (const button of group.children) button.setAttribute("aria-pressed", String(button.textContent === chosen));
    state.put(key, chosen, options[0]);
    onchange(chosen);
  };
  for (const option of options) group.append(make("button", { type: "button", onclick: () => press(option) }, option));
  group.children[options.indexOf(state.one(key, options))].setAttribute("aria-pressed", "true");
  return group;
}

// Arms are shown and hidden in all charts at once.
function armLegend() {
  const buttons = names.map((name) => make("button", { type: "button", onclick: () => toggle(name) }, swatch(look(name)), name));
  const mark = () => buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(!hidden.has(names[i]))));
  REDRAWN.add(mark);
  mark();
  return make("div", { class: "legend", role: "group", "aria-label": "arms shown" }, ...buttons);
}

// A chart that is drawn again when its width, the arms shown or a choice changes, and can be saved.
function chart(section, controls, paint) {
  const host = make("div", { class: "chart" });
  const again = responsive(host, paint);
  REDRAWN.add(again);
  const name = `${board.study || "leaderboard"}-${section.id}.svg`;
  const keep = make("button", { type: "button", class: "save", "aria-label": `save as ${name}`,
    onclick: () => save(name, standalone(host.firstChild), "image/svg+xml") }, "SVG");
  section.append(make("div", { class: "controls" }, ...controls(again), keep), host);
}

function forestSection() {
  const base = board.rows.find((row) => row.arm === board.baseline);
  const shown = () => board.rows.filter((row) => row.delta.value !== null && row.verdict !== "baseline" && !hidden.has(row.arm));
  if (!base || !board.rows.some((row) => row.delta.value !== null && row !== base)) return byId("forest").remove();
  byId("forest").append(make("p", { class: "note" }, `Held-out score minus ${board.baseline}'s, paired by seed and prompt. Thin: 95 % interval. `
    + `Thick: 90 % interval, widened for few prompts; inside the band of ±${board.margin} it is equivalent. Verdicts are corrected for the number of arms.`));
  chart(byId("forest"), () => [armLegend()], (width) => forest(width, {
    rows: shown().map((row) => ({
      name: row.arm, ...look(row.arm), delta: row.delta, verdict: row.verdict,
      told: [["p, corrected", fixed(row.delta.p_adjusted)], ["could be shown", fixed(row.delta.detectable)], ["pairs of seeds", row.delta.pairs]],
    })),
    margin: board.margin, zero: `${board.baseline} ${fixed(base.score.value)}`, unit: `difference in ${SCORE} (${board.unit})`,
    title: `Differences in ${SCORE} from ${board.baseline}`,
  }));
}

function linesOf(curvesOf) {
  return board.rows.filter((row) => !hidden.has(row.arm))
    .map((row) => ({ name: row.arm, ...look(row.arm), curves: Object.values(curvesOf(row)).filter((c) => c.length) }))
    .filter((line) => line.curves.length);
}

function curves() {
  if (!board.rows.some((row) => Object.values(row.curves).some((curve) => curve.length))) return byId("curves").remove();
  const axis = { updates: 0, tokens: 1, seconds: 2 };
  const units = { updates: "updates", tokens: "generated tokens for training", seconds: "seconds, wall clock" };
  let by = state.one("axis", Object.keys(axis));
  const pick = (curve) => curve.map((point) => [point[axis[by]], point[3]]).filter((p) => p.every((v) => v !== null));
  chart(
    byId("curves"),
    (again) => [choice("axis", Object.keys(axis), "horizontal axis", (chosen) => { by = chosen; again(); }), armLegend()],
    (width) => lineChart(width, {
      lines: linesOf((row) => Object.fromEntries(Object.entries(row.curves).map(([s, c]) => [s, pick(c)]))),
      labels: { x: units[by], y: `${SCORE} (${board.unit})` },
      title: `${SCORE} against ${units[by]}. Use the arrow keys to read values.`,
    }),
  );
}

function series() {
  const found = [...new Set(board.rows.flatMap((row) => Object.keys(row.series)))].sort((a, b) => (b === "length/all/mean") - (a === "length/all/mean") || a.localeCompare(b));
  if (!found.length) return byId("series").remove();
  let metric = state.one("metric", found);
  const units = { length: "tokens a rollout", reward: "mean reward", "group/dead_share": "share of groups", "engine/forward_passes": "passes an update", "speculation/acceptance_length": "tokens a verification" };
  const unit = () => units[metric] || units[metric.split("/")[0]];
  chart(
    byId("series"),
    (again) => {
      const select = make("select", { "aria-label": "metric", onchange: () => { metric = select.value; state.put("metric", metric, found[0]); again(); } },
        ...found.map((name) => make("option", { value: name }, name)));
      select.value = metric;
      return [select, armLegend()];
    },
    (width) => lineChart(width, {
      lines: linesOf((row) => row.series[metric] || {}),
      labels: { x: "updates", y: unit() ? `${metric} (${unit()})` : metric },
      title: `${metric} over updates. Use the arrow keys to read values.`,
    }),
  );
}

function ledger() {
  const { bins } = board;
  if (!bins.length) return byId("ledger").remove();
  const legend = make("div", { class: "legend" }, ...bins.map((bin) => make("span", {}, swatch({ color: bin.color }), bin.name)));
  chart(byId("ledger"), () => [legend], (width) => stackedBars(width, {
    bars: board.rows.filter((row) => !hidden.has(row.arm)).map((row) => ({
      name: row.arm, parts: bins.map((bin) => ({ name: bin.name, value: row.cost.ledger[bin.name] || 0, color: bin.color })),
    })),
    title: "Generated tokens by bin",
  }));
}

function pareto() {
  const costs = { tokens: (r) => r.tokens, seconds: (r) => r.wall_s, passes: (r) => r.cost.forward_passes, verified: (r) => r.cost.verifier_calls };
  const units = { tokens: "generated tokens for training", seconds: "seconds, wall clock", passes: "engine forward passes", verified: "verifier calls" };
  const ranked = board.rows.filter((row) => row.rank !== null && row.score.value !== null);
  // Under a budget of tokens all arms spend as many: the cost in which they differ most comes first.
  const spread = (cost) => {
    const values = ranked.map(costs[cost]).filter((value) => value !== null);
    return values.length === ranked.length && values.length ? (Math.max(...values) - Math.min(...values)) / (Math.max(...values) || 1) : -1;
  };
  const known = Object.keys(costs).filter((cost) => spread(cost) >= 0).sort((a, b) => spread(b) - spread(a));
  if (!known.length) return byId("pareto").remove();
  let by = state.one("cost", known);
  chart(byId("pareto"), (again) => [choice("cost", known, "cost", (chosen) => { by = chosen; again(); })], (width) => scatter(width, {
    points: ranked.filter((row) => !hidden.has(row.arm)).map((row) => ({
      name: row.arm, x: costs[by](row), y: row.score.value, low: row.score.low, high: row.score.high, ...look(row.arm),
    })),
    labels: { x: `${units[by]}, a run`, y: `${SCORE} (${board.unit})` }, title: `${SCORE} against ${units[by]}`,
  }));
}

function profile() {
  const spread = board.rows.flatMap((row) => row.profile.share);
  if (!spread.length) return byId("profile").remove();
  const { thresholds } = board.rows[0].profile, step = thresholds[1] - thresholds[0];
  // Where all runs are above, or none is, there is nothing to see.
  const told = thresholds.filter((_, i) =>
    board.rows.some((row) => row.profile.share[i] > 0 && row.profile.share[i] < 1));
  const [from, to] = told.length ? [told[0] - 2 * step, told[told.length - 1] + 2 * step]
    : [thresholds[0], thresholds[thresholds.length - 1]];
  const curve = (row) => row.profile.thresholds
    .map((tau, i) => [tau, row.profile.share[i]]).filter(([tau]) => tau >= from && tau <= to);
  chart(byId("profile"), () => [armLegend()], (width) => lineChart(width, {
    lines: linesOf((row) => [curve(row)]),
    labels: { x: `${SCORE} (${board.unit})`, y: "share of runs above (0 to 1)" },
    title: `Share of runs above a ${SCORE}. Use the arrow keys to read values.`,
  }));
}

function excluded() {
  if (!board.excluded.length) return byId("excluded").remove();
  byId("excluded").append(make("ul", {}, ...board.excluded.map((run) =>
    make("li", {}, `${run.arm}, seed ${run.seed} (${run.run_id}): ${run.reason}.`))));
}

// Headings to go to, and the data as files. Buttons: the address holds what is shown.
function nav() {
  const name = board.study || "leaderboard";
  const go = (section) => { section.scrollIntoView(); section.querySelector("h2").focus({ preventScroll: true }); };
  for (const section of document.querySelectorAll("section")) {
    const heading = section.querySelector("h2");
    heading.tabIndex = -1;
    byId("nav").append(make("button", { type: "button", onclick: () => { go(section); state.put("at", section.id, ""); } }, heading.textContent));
  }
  const { csv, ...data } = board;
  byId("nav").append(
    make("span", { class: "gap" }),
    make("button", { type: "button", id: "csv", class: "save", onclick: () => save(`${name}.csv`, csv, "text/csv") }, "CSV"),
    make("button", { type: "button", id: "json", class: "save", onclick: () => save(`${name}.json`, JSON.stringify(data, null, 1), "application/json") }, "JSON"));
  const at = byId(state.get("at", ""));
  if (at && at.matches("section")) requestAnimationFrame(() => go(at));
}

byId("lead").textContent = lead();
byId("caption").textContent = board.caption + (ALIKE.length ? ` The same in every arm: ${ALIKE.join(", ")}.` : "");
byId("notes").append(...board.rows.flatMap((row) => row.notes.map((note) => make("li", {}, `${row.arm}: ${note}.`))));
forestSection();
table();
detail();
curves();
ledger();
pareto();
rolloutSection(byId("rollouts"));
series();
profile();
excluded();
nav();

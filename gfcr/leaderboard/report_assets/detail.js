// What each arm is: every value in which it differs from another, and its facts.

function detail() {
  const arms = board.rows.map((row) => row.arm);
  if (!arms.length) return byId("detail").remove();
  const own = arms.includes(board.baseline) ? board.baseline : arms[0];
  const others = [own, ...arms.filter((arm) => arm !== own)];
  let against = state.one("against", others);
  const host = make("div"), open = new Set();
  const show = () => host.replaceChildren(...board.rows.map((row) => armDetail(row, board.rows[arms.indexOf(against)], open)));
  const select = make("select", { id: "against", onchange: () => { against = select.value; state.put("against", against, own); show(); } },
    ...others.map((arm) => make("option", { value: arm }, arm)));
  select.value = against;
  byId("detail").append(make("div", { class: "controls" }, make("label", {}, "Values that differ from ", select)), host);
  show();
}

function armDetail(row, other, open) {
  // What fewest arms share comes first: it tells an arm from its likes.
  const sharing = (key) => board.rows.filter((one) => one.settings[key] === row.settings[key]).length;
  const keys = Object.keys(row.settings).filter((key) => row.settings[key] !== other.settings[key])
    .sort((a, b) => sharing(a) - sharing(b) || a.localeCompare(b));
  const none = row === other ? "what the others are compared with" : `configured as ${other.arm}`;
  const telling = keys.filter((key) => !key.endsWith(".name") || keys.filter((k) => stageOf(k) === stageOf(key)).length === 1);
  const summary = keys.length ? telling.slice(0, 5).map((key) => `${lastWords(key)} ${row.settings[key] || "absent"}`).join(", ") : none;
  const body = keys.map((key) => make("tr", {}, make("th", { scope: "row" }, key),
    make("td", {}, row.settings[key] || "absent"), make("td", { class: "soft" }, other.settings[key] || "absent")));
  const head = make("tr", {}, ...["setting", row.arm, other.arm].map((name) => make("th", { scope: "col" }, name)));
  const values = keys.length ? [make("table", { class: "values" }, make("thead", {}, head), make("tbody", {}, ...body))] : [];
  const list = make("dl");
  for (const [name, value] of Object.entries(factsOf(row))) if (value) list.append(make("dt", {}, name), make("dd", {}, value));
  const more = telling.length > 5 ? ` and ${telling.length - 5} more` : "";
  const details = make("details", { "data-arm": row.arm, ontoggle: () => open[details.open ? "add" : "delete"](row.arm) },
    make("summary", {}, swatch(look(row.arm)), make("b", {}, row.arm), make("span", { class: "soft" }, ` ${summary}${more}`)), ...values, list);
  details.open = open.has(row.arm);
  return details;
}

// The part that a dotted key is of.
function stageOf(key) {
  return key.slice(0, key.lastIndexOf("."));
}

// Of a dotted key what tells it apart: a stage's names and the value's own.
function lastWords(key) {
  return key.split(".").slice(-2).join(".");
}

function factsOf(row) {
  const delta = row.delta, aimed = row.to_target;
  return {
    strategy: row.strategy, generate: row.stages.generate, filters: row.stages.filters,
    controls: row.stages.controls, replay: row.stages.replays, seeds: row.seeds.join(", "), "before training": fixed(row.before),
    "not ranked": row.unranked, "losslessness certificate": row.certificate,
    "interquartile mean": row.score.iqm_low !== null && `${fixed(row.score.iqm)} [${fixed(row.score.iqm_low)}, ${fixed(row.score.iqm_high)}]`,
    "p, corrected": delta.p_adjusted !== null && (delta.p_adjusted < 1e-4 ? "below 0.0001" : fixed(delta.p_adjusted, 4)),
    "chance that a run beats the baseline's": delta.improves !== null && percent(delta.improves),
    "difference these seeds could show": delta.detectable !== null && fixed(delta.detectable),
    [`runs that reached ${fixed(board.target)}`]: aimed && `${aimed.reached} of ${aimed.runs}`,
    "length generated, trained": row.bias.length && `${short(row.bias.length.generated)}, ${short(row.bias.length.trained)} tokens`,
    "difficulty generated, trained": row.bias.difficulty && `${fixed(row.bias.difficulty.generated)}, ${fixed(row.bias.difficulty.trained)}`,
    "rollout tokens per second": row.cost.rollout_tokens_per_s && short(row.cost.rollout_tokens_per_s),
    ...row.provenance,
  };
}

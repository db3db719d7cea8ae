// A few rollouts of each arm, their tokens coloured by advantage. Completions are text and nothing else.

function rolloutSection(section) {
  const arms = board.rows.map((row) => row.arm).filter((arm) => board.rollouts[arm]);
  if (!arms.length) return section.append(make("p", { class: "note" }, board.no_rollouts));
  let arm = state.one("rollouts", arms);
  const host = make("div", { class: "rollouts" });
  const show = () => host.replaceChildren(...rolloutsOf(arm));
  const select = make("select", { "aria-label": "arm whose rollouts are shown", onchange: () => {
    arm = select.value;
    state.put("rollouts", arm, arms[0]);
    show();
  } }, ...arms.map((name) => make("option", { value: name }, name)));
  select.value = arm;
  section.append(make("div", { class: "controls" }, select, scaleOf()), host);
  show();
}

function scaleOf() {
  const steps = [-1, -0.5, 0, 0.5, 1].map((share) => make("i", { style: shade(share) }));
  return make("span", { class: "scale" }, "advantage − ", ...steps, " +", make("i", { class: "given" }), "not sampled by the policy");
}

// Orange below 0, blue above: also told apart without red and green.
function shade(share) {
  if (!share) return "";
  const strength = Math.round(12 + 58 * Math.min(Math.abs(share), 1));
  return `background:color-mix(in srgb, var(${share > 0 ? "--more" : "--less"}) ${strength}%, transparent)`;
}

function rolloutsOf(arm) {
  const { seed, update, shown } = board.rollouts[arm];
  const most = Math.max(...shown.flatMap((one) => [one.advantages].flat().map((value) => Math.abs(value ?? 0))), 1e-9);
  const note = make("p", { class: "note" }, `Seed ${seed}, update ${update}.`);
  return [note, ...shown.map((one) => rolloutCard(one, most))];
}

function rolloutCard(one, most) {
  const facts = [["reward", one.reward], ["shaped reward", one.shaped], ...Object.entries(one.rewards), ["advantage", one.advantage]];
  const told = facts.filter(([, value]) => value !== null && value !== undefined).map(([name, value]) => `${name} ${short(value)}`);
  const words = [one.fate, ...told, `${one.length} tokens`, one.finish, one.error].filter(Boolean);
  const cut = one.cut ? make("p", { class: "note" }, `${one.cut} more tokens are not shown.`) : null;
  return make("article", { "aria-label": `${one.pick} rollout of prompt ${one.prompt_id}` },
    make("h3", {}, make("span", { class: `chip ${one.pick}` }, one.pick), ` ${one.prompt_id}`),
    make("p", { class: "facts" }, words.join(" · ")),
    make("pre", { class: "prompt", "aria-label": "prompt", tabindex: 0 }, one.prompt),
    make("pre", { class: "completion", "aria-label": "completion", tabindex: 0 }, ...tokensOf(one, most)),
    ...(cut ? [cut] : []));
}

function tokensOf(one, most) {
  const at = (i) => (Array.isArray(one.advantages) ? one.advantages[i] : one.advantages);
  return one.pieces.map((piece, i) => {
    const sampled = !one.given.includes(i), value = sampled ? at(i) : null;
    const token = make("span", { class: sampled ? null : "given", style: value === null ? null : shade(value / most) }, piece);
    token.title = sampled ? (value === null ? "no advantage" : `advantage ${short(value)}`) : "not sampled by the policy";
    return token;
  });
}

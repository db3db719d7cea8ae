// The table of arms: sorted by any column, filtered by words, a card for each arm on a phone.

// How the cells of some columns look; the table itself, its columns and texts, is made by gfcr.
const chip = (text) => [make("span", { class: `chip ${text}` }, text)];
const LOOKS = { arm: (text) => [swatch(look(text)), text], verdict: chip, certificate: chip };
// An interval, or how many runs got there, stands below its number.
const lines = (text) => {
  const [, number, rest] = /^(\S+) ([[(].*)$/.exec(text) || [null, text, null];
  return rest ? [number, make("small", {}, rest)] : [number];
};
const ALWAYS = ["#", "arm", "score", "difference", "verdict"];
const textsOf = (i) => board.rows.map((row) => row.cells[i].text);
const alike = ({ name }, i) => board.rows.length > 1 && !ALWAYS.includes(name) && new Set(textsOf(i)).size === 1;
const COLUMNS = board.heads.map(({ name, words }, i) => ({
  alike: alike({ name }, i),
  name: name === "#" ? "Rank" : name[0].toUpperCase() + name.slice(1),
  head: name === "arm",
  words,
  first: name === "#" ? 1 : -1,
  key: (row) => (row.cells[i].text === "" ? null : row.cells[i].key),
  show: (row) => {
    if (name === "difference" && row.verdict === "baseline") return ["baseline"];
    const { text } = row.cells[i];
    return text === "" ? ["–"] : (LOOKS[name] || lines)(text);
  },
})).filter((column) => !column.alike);
// A column that says the same of every arm is one sentence.
const ALIKE = board.heads.flatMap((head, i) => (alike(head, i) ? [`${head.name} ${textsOf(i)[0]}`] : []));

// What the filter looks for words in.
const about = (row) => [row.strategy, row.verdict, row.certificate, ...Object.values(row.stages), ...row.cells.map((cell) => cell.text)]
  .join(" ").toLowerCase();

function table() {
  const filter = byId("filter"), sorting = byId("sorting");
  const options = COLUMNS.flatMap(({ name }) => [name, `${name}, falling`]);
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
    sorting.value = `${column.name}${up ? "" : ", falling"}`;
    state.put("sort", sorting.value, options[0]);
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
      make(column.head ? "th" : "td", column.head ? { scope: "row", class: "name" } : { "data-name": column.name, class: column.words ? "words" : null }, ...column.show(row))))));
  }
  byId("arms").append(make("thead", {}, make("tr", {}, ...heads)), body);
  filter.value = state.get("filter", "");
  filter.addEventListener("input", () => { state.put("filter", filter.value, ""); fillBody(latest); });
  const wanted = (text) => {
    const column = COLUMNS.find(({ name }) => text === name || text === `${name}, falling`);
    const head = heads[COLUMNS.indexOf(column)];
    head.setAttribute("aria-sort", text === column.name ? "descending" : "ascending"); // `sort` turns it round
    sort(column);
  };
  sorting.append(...options.map((name) => make("option", { value: name }, name)));
  sorting.addEventListener("change", () => wanted(sorting.value));
  wanted(state.one("sort", options));
}

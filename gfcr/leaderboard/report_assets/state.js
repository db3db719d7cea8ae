// The embedded leaderboard, and what a reader has chosen to see of it.

const board = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const names = board.rows.map((row) => row.arm).sort();
const look = (arm) => board.looks[arm];
const SCORE = "held-out score";
const fixed = (value, digits = 3) => (value === null ? "–" : value.toFixed(digits));
const percent = (value) => (value === null ? "–" : `${Math.round(100 * value)} %`);

// What a reader has chosen. It stands in the address, so that a link shows the same; what is not chosen does not.

const REDRAWN = new Set(); // To be drawn again when the arms shown change.
const address = new URLSearchParams(location.hash.slice(1));
const state = {
  get: (key, otherwise) => address.get(key) ?? otherwise,
  // One of the options, whatever an address says that was made for another report.
  one: (key, options) => (options.includes(address.get(key)) ? address.get(key) : options[0]),
  put(key, value, otherwise) {
    if (value === otherwise || value === "") address.delete(key);
    else address.set(key, value);
    history.replaceState(null, "", `#${address}`);
  },
};
addEventListener("hashchange", () => location.reload()); // Another link, in the same tab.

const hidden = new Set(address.getAll("hide"));
function toggle(arm) {
  if (!hidden.delete(arm)) hidden.add(arm);
  address.delete("hide");
  for (const each of [...hidden].sort()) address.append("hide", each);
  history.replaceState(null, "", `#${address}`);
  for (const again of REDRAWN) again();
}

function save(name, text, type) {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// A chart as a file of its own: the colours and fonts that the page's style sheet gives it, written out.
function standalone(svg) {
  const copy = svg.cloneNode(true), style = ["fill", "stroke", "font-size", "font-family", "font-weight", "opacity", "paint-order", "stroke-width", "stroke-dasharray"];
  const originals = [svg, ...svg.querySelectorAll("*")], copies = [copy, ...copy.querySelectorAll("*")];
  originals.forEach((node, i) => {
    const computed = getComputedStyle(node);
    copies[i].setAttribute("style", style.map((key) => `${key}:${computed.getPropertyValue(key)}`).join(";"));
  });
  copy.setAttribute("xmlns", SVG);
  copy.setAttribute("width", svg.viewBox.baseVal.width);
  copy.style.background = getComputedStyle(document.querySelector("section")).backgroundColor;
  return new XMLSerializer().serializeToString(copy);
}

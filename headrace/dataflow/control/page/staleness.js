// How stale rows were when they were trained on, and those that are on their way.

import { byId, keyed, make, percent, say, wide } from "./dom.js";

export function showStaleness(tables) {
  const trained = Object.keys(tables).filter((name) => tables[name].trained > 0 || tables[name].outstanding_units > 0);
  keyed(byId("staleness"), trained, histogram, (item, name) => showHistogram(item, tables[name]));
}

function histogram(name) {
  const head = ["staleness", "", "trained on", "queued", "in flight"];
  return make("figure", {},
    make("figcaption", {}, make("b", {}, name), make("span", { class: "soft knob" })),
    make("table", { class: "histogram" },
      make("thead", {}, make("tr", {}, ...head.map((title) => (title ? make("th", { scope: "col" }, title) : make("td"))))),
      make("tbody")));
}

function showHistogram(item, table) {
  say(item.querySelector(".knob"), `knob ${table.staleness}, ${table.trained} rows trained on`);
  const counts = [table.staleness_trained, table.staleness_in_queue, table.staleness_in_flight];
  const known = [...new Set(counts.flatMap((each) => Object.keys(each)))].sort((a, b) => a - b);
  const most = Math.max(...Object.values(table.staleness_trained), 1);
  const create = (staleness) => make("tr", {}, make("th", { scope: "row" }, staleness),
    make("td", { class: "long" }, make("div", { class: "column" })), ...Array.from({ length: 3 }, () => make("td", { class: "number" })));
  keyed(item.querySelector("tbody"), known, create, (row, staleness) => {
    const [trained, queued, flying] = counts.map((each) => each[staleness] ?? 0);
    wide(row.querySelector(".column"), trained / most);
    const cells = row.querySelectorAll(".number");
    say(cells[0], `${trained} (${percent(trained / Math.max(table.trained, 1))})`);
    say(cells[1], String(queued));
    say(cells[2], String(flying));
  });
}

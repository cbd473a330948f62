// Fills the page: follows the launch's stream, and hands what it says to the parts.

import { get } from "./ask.js";
import { Curves } from "./curves.js";
import { byId, clock, duration, keyed, make, say } from "./dom.js";
import { Graph } from "./graph.js";
import { Node } from "./node.js";
import { Samples } from "./samples.js";
import { showStaleness } from "./staleness.js";

const node = new Node();
const graph = new Graph(byId("graph"), (card) => node.choose(card));
const curves = new Curves();
const samples = new Samples();

let newest = null;
let over = false;

function stood(standing) {
  newest = standing;
  const { run } = standing;
  document.title = `${run.name} · Headrace`;
  say(byId("name"), run.name);
  showSteps(run.steps);
  graph.update(standing);
  node.update(standing);
  showStaleness(run.tables);
  const done = Object.values(run.steps).map((each) => each.done).join();
  curves.update(done);
  samples.update(done, Object.keys(run.steps));
  const because = run.paused?.why ? `: ${run.paused.why}` : "";
  contact(run.paused ? "paused" : "live", run.paused ? `paused by ${run.paused.who}${because}` : `live, ${clock(standing.at)}`);
}

function contact(state, text) {
  document.body.dataset.contact = state;
  say(byId("contact"), text);
}

function silent(why) {
  if (over) return;
  const since = newest === null ? "" : `; what is shown is of ${clock(newest.at)}`;
  contact("old", `${why}${since}`);
}

function showSteps(steps) {
  const create = () => make("li", {}, make("span"), make("progress"));
  keyed(byId("steps"), Object.keys(steps), create, (item, policy) => {
    const { done, of } = steps[policy];
    say(item.firstChild, `${policy}: step ${done} of ${of}`);
    Object.assign(item.lastChild, { max: of, value: done, ariaLabel: `${policy}: ${done} of ${of} steps` });
  });
}

function follow() {
  const stream = new EventSource("/v1/watch");
  stream.addEventListener("standing", (event) => stood(JSON.parse(event.data)));
  stream.addEventListener("trouble", (event) => silent(JSON.parse(event.data).detail));
  stream.addEventListener("over", () => {
    over = true;
    stream.close();
    const after = newest === null ? "" : `, ${clock(newest.at)}`;
    contact("over", `this launch has ended${after}; what is shown is its last state`);
  });
  stream.addEventListener("error", () => silent("no contact with the launch; trying again"));
}

setInterval(() => {
  const age = newest === null ? 0 : Date.now() / 1000 - newest.at;
  if (age > 10 && document.body.dataset.contact === "live") silent(`nothing heard for ${duration(age)}`);
}, 1000);

window.addEventListener("unhandledrejection", (event) => {
  event.preventDefault();
  silent(event.reason.message);
});

graph.draw(await get("/v1/picture"));
follow();

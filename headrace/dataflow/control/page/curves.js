// Curves over the training step: one chart a metric, one curve a policy.

import { get } from "./ask.js";
import { byId, figure, make, say, shape } from "./dom.js";

const CHARTS = { Reward: ["reward/mean"], Loss: ["actor/loss", "critic/loss"], "Tokens per second": ["perf/tokens_per_s"] };
const WIDTH = 360, HEIGHT = 190, LEFT = 46, RIGHT = 10, TOP = 10, BOTTOM = 24;
const COLOURS = 6;

export class Curves {
  constructor() {
    this.select = byId("metric");
    this.select.addEventListener("change", () => this.load());
  }

  /** `done`: changes with every step. */
  async update(done) {
    if (done === this.done || this.loading) return;
    this.done = done;
    this.loading = true;
    try {
      await this.load();
    } finally {
      this.loading = false;
    }
  }

  async load() {
    const { metrics } = await get("/v1/metrics");
    this.offer([...new Set(Object.values(metrics).flat())].sort());
    const wanted = { ...CHARTS, ...(this.select.value ? { [this.select.value]: [this.select.value] } : {}) };
    const names = [...new Set(Object.values(wanted).flat())];
    const found = await Promise.all(Object.keys(metrics).map((policy) => get("/v1/curves", { policy, metric: names })));
    const charts = Object.entries(wanted).map(([title, of]) => chart(title, found.flatMap(({ policy, curves }, place) =>
      of.filter((name) => curves[name]?.length)
        .map((name) => ({ label: policy, colour: `k${place % COLOURS}`, points: curves[name] })))));
    byId("curves").replaceChildren(...charts);
  }

  offer(names) {
    const known = [...this.select.options].map((option) => option.value);
    if (known.join() === ["", ...names].join()) return;
    const { value } = this.select;
    this.select.replaceChildren(...["", ...names].map((name) => make("option", { value: name }, name || "none")));
    this.select.value = names.includes(value) ? value : names.find((name) => name === "reward/exact") ?? "";
  }
}

function chart(title, curves) {
  if (!curves.length) return make("figure", {}, make("figcaption", {}, make("b", {}, title)), make("p", { class: "soft" }, "no step has said it"));
  const frame = around(curves.flatMap(({ points }) => points));
  const keys = curves.map(({ label, colour, points }) =>
    make("span", { class: `key ${colour}` }, `${label} `, make("b", {}, figure(points.at(-1)[1]))));
  const told = curves.map(({ label, points }) =>
    `${label}: ${figure(points[0][1])} at step ${points[0][0]}, ${figure(points.at(-1)[1])} at step ${points.at(-1)[0]}`);
  const svg = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title} over training steps. ${told.join(". ")}` },
    ...axes(frame), ...curves.map((each) => curve(each, frame)));
  const at = make("output", { class: "at" });
  svg.addEventListener("pointermove", (event) => say(at, pointed(event, svg, frame, curves)));
  svg.addEventListener("pointerleave", () => say(at, ""));
  return make("figure", {}, make("figcaption", {}, make("b", {}, title), ...keys, at), svg);
}

/** The data's rectangle, 0 included, and its way onto the picture. */
function around(points) {
  const steps = points.map(([step]) => step), values = points.map(([, value]) => value);
  const ticks = roundTicks(Math.min(...values, 0), Math.max(...values, 0));
  const x0 = Math.min(...steps), x1 = Math.max(...steps, x0 + 1), y0 = ticks[0], y1 = ticks.at(-1);
  return {
    x0, x1, ticks,
    x: (step) => LEFT + ((step - x0) / (x1 - x0)) * (WIDTH - LEFT - RIGHT),
    y: (value) => TOP + ((y1 - value) / (y1 - y0)) * (HEIGHT - TOP - BOTTOM),
  };
}

export function roundTicks(low, high, about = 4) {
  const top = high > low ? high : low + 1;
  const raw = (top - low) / about, unit = 10 ** Math.floor(Math.log10(raw));
  const step = unit * [1, 2, 5, 10].find((times) => times * unit >= raw * 0.999);
  const first = Math.floor(low / step + 1e-9), last = Math.ceil(top / step - 1e-9);
  return Array.from({ length: last - first + 1 }, (_, n) => Number(((first + n) * step).toPrecision(10)));
}

function axes({ x0, x1, ticks, x, y }) {
  const rows = ticks.flatMap((tick) => [
    shape("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(tick), y2: y(tick) }),
    shape("text", { class: "tick", x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, figure(tick))]);
  const columns = [[x0, "start"], [x1, "end"]].map(([step, anchor]) =>
    shape("text", { class: "tick", x: x(step), y: HEIGHT - 6, "text-anchor": anchor }, String(step)));
  return [...rows, ...columns];
}

function curve({ colour, points }, { x, y }) {
  const [step, value] = points.at(-1);
  return shape("g", {},
    shape("polyline", { class: `line ${colour}`, points: points.map(([s, v]) => `${x(s).toFixed(1)},${y(v).toFixed(1)}`).join(" ") }),
    shape("circle", { class: `end ${colour}`, cx: x(step), cy: y(value), r: 2.5 }));
}

function pointed(event, svg, { x0, x1 }, curves) {
  const box = svg.getBoundingClientRect();
  const across = ((event.clientX - box.left) / box.width) * WIDTH;
  const step = x0 + ((across - LEFT) / (WIDTH - LEFT - RIGHT)) * (x1 - x0);
  return curves.map(({ label, points }) => {
    const [at, value] = points.reduce((best, each) => (Math.abs(each[0] - step) < Math.abs(best[0] - step) ? each : best));
    return `${curves.length > 1 ? `${label} ` : ""}step ${at}: ${figure(value)}`;
  }).join(", ");
}

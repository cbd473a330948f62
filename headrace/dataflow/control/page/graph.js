// The graph: cards in their places, edges between them, and what is live on both.

import { figure, say, shape } from "./dom.js";

const COLOURS = { source: "made", branch: "made", join: "made", rollout: "asked", trainer: "learned", eval: "kept", sink: "kept" };
const PADDING = 12;
const MOST_DOTS = 6;
const SMALLEST = 0.8; // of its own size, before the figure scrolls

export class Graph {
  constructor(figure, chosen) {
    this.figure = figure;
    this.chosen = chosen;
    this.live = new Map();
  }

  draw(picture) {
    this.picture = picture;
    const svg = shape("svg", { viewBox: `0 0 ${picture.width} ${picture.height}`, role: "group" });
    svg.style.minWidth = `${SMALLEST * picture.width}px`;
    svg.style.maxWidth = `${1.15 * picture.width}px`;
    svg.append(
      arrow("flow-end"),
      arrow("weights-end"),
      ...picture.bands.map(band),
      ...picture.flows.map(flow),
      ...picture.supplies.map(supply),
      ...picture.cards.map((card) => this.card(card)),
      ...picture.cards.map((card) => this.label(card)),
    );
    this.figure.replaceChildren(svg);
    const first = picture.cards.find((card) => card.kind === "rollout") ?? picture.cards[0];
    if (first) this.choose(first);
  }

  card(card) {
    const { x, y, width, height } = card.rect;
    const dots = shape("g", { class: "dots" });
    const choose = () => this.choose(card);
    const key = (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      choose();
    };
    const element = shape(
      "g",
      { class: "card", tabindex: "0", role: "button", "aria-pressed": "false", "data-node": card.name, click: choose, keydown: key },
      shape("rect", { class: "face", x, y, width, height, rx: 8 }),
      shape("rect", { class: COLOURS[card.kind] ?? "scored", x, y: y + 8, width: 3, height: height - 16, rx: 1.5 }),
      shape("text", { class: "name", x: x + PADDING, y: y + 23 }, card.name),
      ...card.lines.map((line, n) => shape("text", { class: "text", x: x + PADDING, y: y + 41 + 15 * n }, line)),
      ...card.fused.map((name, n) =>
        shape("text", { class: "text", x: x + PADDING, y: y + 44 + 15 * card.lines.length + 24 * n }, `ƒ ${name}`)),
      dots,
    );
    this.live.set(card.name, { element, dots });
    return element;
  }

  /** What is live of the edges that lead to a card: left of where they meet it. */
  label(card) {
    const ends = this.picture.flows.filter((flow) => flow.target === card.name).map((flow) => flow.points.at(-1)[0]);
    if (!ends.length) return null;
    const x = Math.min(...ends) - 8;
    const lines = [30, 16].map((up) => shape("text", { class: "edge", x, y: card.rect.y - up }));
    this.live.get(card.name).lines = lines;
    return shape("g", { "aria-hidden": "true" }, ...lines);
  }

  choose(card) {
    for (const [name, { element }] of this.live) element.setAttribute("aria-pressed", String(name === card.name));
    this.chosen(card);
  }

  update({ run, rates }) {
    for (const card of this.picture.cards) {
      const { element, dots, lines } = this.live.get(card.name);
      const replicas = run.replicas.filter((each) => each.replica.split("/")[0] === card.name);
      showDots(dots, card.rect, replicas);
      const task = run.tables[card.table]?.tasks[card.name];
      const said = lines ? edge(card, run.tables[card.table], task, rates[card.name]) : ["", ""];
      lines?.forEach((line, n) => say(line, said[n]));
      element.setAttribute("aria-label", `${card.name}, ${card.kind}: ${states(replicas)}. ${said.filter(Boolean).join(", ")}`);
    }
  }
}

function edge(card, table, task, rate) {
  const depth = task ? `${task.ready} ready, ${task.leased} held` : "";
  const staleness = table === undefined ? null : oldest(card.kind === "rollout" ? table.staleness_in_flight : table.staleness_in_queue);
  const flows = rate === undefined ? [] : [`${figure(rate)}/s`];
  return [depth, [...flows, ...(staleness === null ? [] : [`stale ≤ ${staleness}`])].join(", ")];
}

function oldest(counts) {
  const known = Object.entries(counts).filter(([, rows]) => rows > 0).map(([staleness]) => Number(staleness));
  return known.length ? Math.max(...known) : null;
}

function states(replicas) {
  const counts = new Map();
  for (const { state } of replicas) counts.set(state, (counts.get(state) ?? 0) + 1);
  return [...counts].map(([state, count]) => `${count} ${state}`).join(", ") || "no replica";
}

function showDots(dots, rect, replicas) {
  const alive = replicas.filter((each) => each.state !== "stopped");
  const shown = alive.slice(0, MOST_DOTS);
  const right = rect.x + rect.width - PADDING - 3;
  const circles = shown.map(({ replica, state }, n) =>
    shape("circle", { class: `dot ${state}`, cx: right - 11 * (shown.length - 1 - n), cy: rect.y + 18, r: 4 },
      shape("title", {}, `${replica}: ${state}`)));
  const more = alive.length > MOST_DOTS
    ? [shape("text", { class: "text more", x: right + 4, y: rect.y + 36 }, `${alive.length} replicas`)] : [];
  dots.replaceChildren(...circles, ...more);
}

function arrow(id) {
  return shape("marker", { id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
    shape("path", { class: id, d: "M0 0 L8 4 L0 8 z" }));
}

function band({ table, lines, rect }) {
  const { x, y, width, height } = rect;
  return shape("g", {},
    shape("rect", { class: "band", x, y, width, height, rx: 10 }),
    ...(table ? lines : []).map((line, n) => shape("text", { class: n ? "text" : "name", x: x + 14, y: y + 22 + 15 * n }, line)));
}

function flow({ source, target, columns, points }) {
  let path = `M${points[0].join(" ")}`;
  points.slice(1).forEach(([x, y], n) => {
    const [x0, y0] = points[n];
    const middle = (y0 + y) / 2;
    path += n % 2 === 0 ? ` L${x} ${y}` : ` C${x0} ${middle} ${x} ${middle} ${x} ${y}`;
  });
  return way("flow", path, `${source} → ${target}: ${columns.join(", ") || "waits for it"}`);
}

function supply({ trainer, reader, policy, points }) {
  return way("weights", `M${points.map((point) => point.join(" ")).join(" L")}`, `${trainer} → ${reader}: weights of ${policy}`);
}

function way(kind, path, told) {
  return shape("g", {}, shape("title", {}, told), shape("path", { class: kind, d: path, "marker-end": `url(#${kind}-end)` }));
}

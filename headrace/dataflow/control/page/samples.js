// Samples that trainers showed: what was asked, what was answered, what it was worth, and when.

import { get } from "./ask.js";
import { byId, clock, figure, keyed, make, offset, seconds, wide } from "./dom.js";

export class Samples {
  constructor() {
    this.form = byId("filter");
    this.form.addEventListener("input", () => this.load());
    this.form.addEventListener("submit", (event) => event.preventDefault());
  }

  /** `done`: changes with every step. */
  async update(done, policies) {
    this.offer(policies);
    if (done === this.done || !this.form.follow.checked || this.loading) return;
    this.done = done;
    await this.load();
  }

  offer(policies) {
    const { policy } = this.form;
    if (policy.options.length === policies.length + 1) return;
    policy.append(...policies.map((name) => make("option", { value: name }, name)));
    policy.parentElement.hidden = policies.length === 1;
  }

  async load() {
    const turn = (this.turn = (this.turn ?? 0) + 1);
    this.loading = true;
    try {
      const { policy, step, reward_min, reward_max, order } = this.form;
      const bounds = { policy, step, reward_min, reward_max, order };
      const wanted = Object.fromEntries(Object.entries(bounds).map(([name, input]) => [name, input.value]));
      const { samples } = await get("/v1/samples", { ...wanted, most: 16 });
      if (turn === this.turn) this.show(samples);
    } finally {
      this.loading = false;
    }
  }

  show(samples) {
    const list = byId("samples");
    list.querySelector(".none")?.remove();
    const found = new Map(samples.map((sample) => [`${sample.policy} ${sample.step} ${sample.uid}`, sample]));
    keyed(list, [...found.keys()], (key) => entry(found.get(key)), () => {});
    if (!found.size) list.append(make("p", { class: "soft none" }, "no sample is shown yet, or none is as asked"));
  }
}

function entry(sample) {
  const worth = sample.reward === null ? `invalid: ${sample.invalid}` : figure(sample.reward);
  const facts = {
    "row": `${sample.uid}, group ${sample.group}`,
    "policy": sample.policy,
    "step": String(sample.step),
    "reward": worth,
    ...Object.fromEntries(Object.entries(sample.parts).map(([part, value]) => [`reward/${part}`, figure(value)])),
    "versions": sample.versions.map(([version, tokens]) => `${version} × ${tokens} tokens`).join(", "),
    "staleness": sample.staleness === null ? "" : String(sample.staleness),
    "tokens": `${sample.prompt_tokens} asked, ${sample.answer_tokens} answered`,
    "ended by": sample.finish_reason,
  };
  const told = Object.entries(facts).filter(([, value]) => value !== "");
  const way = make("div", { class: "way" });
  const opened = (event) => event.target.open && !way.childElementCount && showWay(way, sample);
  return make("details", { toggle: opened },
    make("summary", {},
      make("span", { class: `worth${sample.reward === null ? " invalid" : ""}` }, worth),
      make("span", { class: "soft" }, `step ${sample.step}`),
      make("span", { class: "glance soft" }, sample.prompt),
      make("span", { class: "glance" }, sample.answer || "(empty)")),
    make("h3", {}, "Prompt"), make("pre", {}, sample.prompt),
    make("h3", {}, "Answer"), make("pre", {}, sample.answer),
    make("dl", { class: "figures" }, ...told.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value)))),
    make("h3", {}, "Way through the services"), way);
}

/** Stages as bars over the row's time, from when it was put. */
async function showWay(element, { table, uid, taken, trained }) {
  const route = `/v1/samples/${encodeURIComponent(table)}/${uid}/path`;
  const { stages } = await get(route).catch(() => ({ stages: [] }));
  if (!stages.length) {
    const known = `taken by the trainer ${clock(taken)}, trained on ${clock(trained)}`;
    element.replaceChildren(make("p", { class: "soft" }, `${known}; the traces do not have the rest`));
    return;
  }
  const began = stages[0].began, whole = stages.at(-1).ended - began || 1;
  const rows = stages.map((stage) => {
    const bar = make("i", { class: stage.replica ? "work" : "idle" });
    offset(wide(bar, (stage.ended - stage.began) / whole), (stage.began - began) / whole);
    return make("tr", {}, make("th", { scope: "row" }, stage.replica || stage.name), make("td", { class: "track" }, bar),
      make("td", { class: "number" }, seconds(stage.ended - stage.began)));
  });
  const head = `put ${clock(began)}, trained on ${clock(stages.at(-1).ended)}, ${seconds(whole)} later`;
  element.replaceChildren(make("table", {}, make("caption", {}, head), make("tbody", {}, ...rows)));
}

// Samples that trainers showed: what was asked, what was answered, what it was worth, and when.

import { get } from "./ask.js";
import { byId, clock, figure, keyed, make, say } from "./dom.js";

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
    this.loading = true;
    try {
      const { policy, step, reward_min, reward_max, order } = this.form;
      const bounds = { policy, step, reward_min, reward_max, order };
      const wanted = Object.fromEntries(Object.entries(bounds).map(([name, input]) => [name, input.value]));
      this.show((await get("/v1/samples", { ...wanted, most: 20 })).samples);
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
  return make("details", {},
    make("summary", {},
      make("span", { class: `worth${sample.reward === null ? " invalid" : ""}` }, worth),
      make("span", { class: "soft" }, `step ${sample.step}`),
      make("span", { class: "glance" }, sample.answer || "(empty)")),
    make("h3", {}, "Prompt"), make("pre", {}, sample.prompt),
    make("h3", {}, "Answer"), make("pre", {}, sample.answer),
    make("dl", { class: "figures" }, ...told.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value)))),
    path(sample));
}

function path(sample) {
  return make("p", { class: "soft" }, `taken by the trainer ${clock(sample.taken)}, trained on ${clock(sample.trained)}`);
}

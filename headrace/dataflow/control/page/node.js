// The service that was chosen: its rows, its replicas, and what can be done to it.

import { post } from "./ask.js";
import { byId, duration, figure, keyed, make, percent, say, wide } from "./dom.js";

export const SHARES = { busy: "busy", idle_wait_data: "waits for data", idle_wait_weights: "waits for weights", paused: "paused" };

export class Node {
  choose(card) {
    this.card = card;
    say(byId("node-title"), card.name);
    say(byId("node-what"), [card.kind, ...card.lines].join(", "));
    const change = (label, title, call) => make("button", { type: "button", title, click: call }, label);
    const fixed = card.why_single
      ? [make("p", { class: "soft" }, `There is one replica: ${card.why_single}.`)]
      : [
        change("+ Add one", "Add a replica", () => this.scale(1)),
        change("− Take one away", "Drain the youngest replica", () => this.scale(-1)),
        change("Restart", "Restart the replicas one after another", () => this.restart()),
      ];
    byId("node-actions").replaceChildren(...fixed);
    if (this.standing) this.update(this.standing);
  }

  update(standing) {
    this.standing = standing;
    if (!this.card) return;
    const { run, rates, at } = standing;
    this.replicas = run.replicas.filter((each) => each.replica.split("/")[0] === this.card.name);
    const task = run.tables[this.card.table]?.tasks[this.card.name];
    const figures = {
      "rows ready": task?.ready,
      "held": task?.leased,
      "waiting": task?.waiting,
      "rows/s": rates[this.card.name] === undefined ? undefined : figure(rates[this.card.name]),
    };
    const known = Object.keys(figures).filter((name) => figures[name] !== undefined);
    keyed(byId("node-figures"), known, (name) => make("div", {}, make("dt", {}, name), make("dd")),
      (entry, name) => say(entry.lastChild, String(figures[name])));
    const found = new Map(this.replicas.map((each) => [each.replica, each]));
    keyed(byId("replicas"), [...found.keys()], (name) => this.replicaCard(name), (item, name) =>
      showReplica(item, found.get(name), at, this.card.why_single));
    const under = run.changes.filter(({ node }) => node === this.card.name);
    say(byId("under-way"), under.map(({ action, who, since }) => `${action}, asked by ${who}, for ${duration(at - since)}`).join("; "));
  }

  replicaCard(name) {
    const [node, index] = name.split("/");
    const log = make("a", { href: `/v1/services/${encodeURIComponent(node)}/${index}/log?lines=500`, target: "_blank", "aria-label": `log of ${name}` }, "log");
    const drain = make("button", { type: "button", class: "drain", "aria-label": `Drain ${name}`, click: () => this.drain(name) }, "Drain");
    return make("li", {},
      make("p", { class: "first" }, make("span", { class: "dot" }), make("b", {}, name), make("span", { class: "state" }), log, drain),
      make("p", { class: "doing" }), make("ul", { class: "waits" }),
      make("div", { class: "bar" }, ...Object.keys(SHARES).map((share) => make("i", { class: share }))),
      make("p", { class: "shares" }), make("p", { class: "error" }));
  }

  running() {
    return this.replicas.filter(({ state }) => state !== "stopped").length;
  }

  async scale(by) {
    const { name } = this.card, now = this.running();
    const asked = await confirmed(`Scale ${name}`, `${now} now. Replicas that go finish what they hold.`, Math.max(now + by, 1));
    if (!asked) return;
    await told(`scale ${name} to ${asked.replicas}`, async () => {
      const done = await post(`/v1/services/${encodeURIComponent(name)}/scale`, asked);
      const changed = [...done.added.map((each) => `added ${each}`), ...done.drained.map((each) => `drained ${each}`)];
      return `${name} ${done.before} → ${done.after}: ${changed.join(", ") || "nothing to change"}`;
    });
  }

  async drain(replica) {
    const asked = await confirmed(`Drain ${replica}`, "It finishes what it holds, or hands it back, and ends.");
    if (!asked) return;
    const route = replica.split("/").map(encodeURIComponent).join("/");
    await told(`drain ${replica}`, async () => {
      const done = await post(`/v1/services/${route}/drain`, asked);
      return `${done.node} ${done.before} → ${done.after}: drained ${done.drained.join(", ")}`;
    });
  }

  async restart() {
    const { name } = this.card;
    const asked = await confirmed(`Restart ${name}`, "One replica after another; nothing is lost.");
    if (!asked) return;
    await told(`restart ${name}`, async () => {
      const done = await post(`/v1/services/${encodeURIComponent(name)}/restart`, asked);
      return `restarted ${done.restarted.join(", ")}`;
    });
  }
}

/** What was asked for in the dialog; null where it was left. */
function confirmed(title, text, replicas = null) {
  const dialog = byId("confirm"), form = dialog.querySelector("form");
  form.reset();
  say(byId("confirm-title"), title);
  say(byId("confirm-text"), text);
  byId("confirm-count").hidden = replicas === null;
  form.replicas.disabled = replicas === null;
  form.replicas.value = replicas ?? "";
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      if (dialog.returnValue !== "do") return resolve(null);
      const why = form.why.value;
      resolve(replicas === null ? { why } : { why, replicas: Number(form.replicas.value) });
    }, { once: true });
  });
}

async function told(what, act) {
  const said = byId("said");
  said.className = "";
  say(said, `asked: ${what} …`);
  try {
    say(said, await act());
  } catch (error) {
    said.className = "refused";
    say(said, `${what}: ${error.message}`);
  }
}

function showReplica(item, replica, at, whySingle) {
  const part = (name) => item.querySelector(`.${name}`);
  part("drain").hidden = whySingle !== "" || ["stopped", "failed"].includes(replica.state);
  part("dot").className = `dot ${replica.state}`;
  const restarts = replica.restarts ? `, restarted ${replica.restarts} ×` : "";
  say(part("state"), `${replica.state} for ${duration(at - replica.since)}${restarts}`);
  const still = replica.still_s >= 5 ? `, ${duration(replica.still_s)} without movement` : "";
  say(part("doing"), replica.doing ? `${replica.doing}${still}` : "");
  keyed(part("waits"), replica.waits.map((_, n) => String(n)), () => make("li"), (wait, n) => {
    const { why, since_s, left_s } = replica.waits[n];
    say(wait, `waits for ${duration(since_s)}, at most ${duration(left_s)} more: ${why}`);
  });
  const { shares } = replica;
  part("bar").hidden = shares === null;
  if (shares) for (const share of Object.keys(SHARES)) wide(part(share), shares[share] ?? 0);
  say(part("shares"), shares ? Object.entries(SHARES).filter(([share]) => shares[share] >= 0.005)
    .map(([share, told]) => `${told} ${percent(shares[share])}`).join(", ") : "");
  say(part("error"), replica.error ? `last error: ${replica.error}` : "");
}

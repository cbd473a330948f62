// Asks the API that served this page.

/** Raises Error with the launch's reason. */
export async function get(route, query = {}) {
  const given = Object.entries(query).flatMap(([name, value]) => [value].flat().map((each) => [name, each]));
  const wanted = new URLSearchParams(given.filter(([, value]) => value !== "" && value !== null));
  return answered(await fetch(`${route}?${wanted}`));
}

/** Raises Error with the launch's reason. */
export async function post(route, body) {
  const headers = { "content-type": "application/json" };
  return answered(await fetch(route, { method: "POST", headers, body: JSON.stringify(body) }));
}

async function answered(response) {
  const answer = await response.json();
  if (response.ok) return answer;
  const { detail } = answer;
  throw new Error(Array.isArray(detail) ? detail.map((each) => each.msg).join("; ") : detail);
}

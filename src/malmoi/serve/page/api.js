// The server's API as the page uses it, with its refusals as errors that can be shown.

let key = sessionStorage.getItem("malmoi-key") ?? "";

export class Refused extends Error {
  constructor(status, code, message, wait) {
    super(message);
    Object.assign(this, { status, code, wait });
  }
}

export function setKey(value) {
  key = value.trim();
  sessionStorage.setItem("malmoi-key", key);
}

async function call(path, options = {}) {
  const headers = { ...(options.headers ?? {}) };
  if (key) headers.authorization = `Bearer ${key}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "unreachable", "");
  }
  const body = await response.json().catch(() => ({}));
  if (!response.ok) {
    const error = body.error ?? {};
    throw new Refused(response.status, error.code ?? "", error.message ?? "", response.headers.get("retry-after"));
  }
  return body;
}

export const get = (path) => call(path);

// A newer question of the same kind ends the older one.
const running = new Map();
export async function post(path, body) {
  running.get(path)?.abort();
  const control = new AbortController();
  running.set(path, control);
  return postAlone(path, body, control.signal);
}

export const postAlone = (path, body, signal) =>
  call(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal });

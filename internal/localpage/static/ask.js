// Requests to rlxrun. Every function throws a Failure with a text for the user.

export class Failure extends Error {
  constructor(message, { code = "", status = 0 } = {}) {
    super(message);
    this.code = code; // for `rlxrun explain`
    this.status = status; // HTTP status; 0 if there was no answer
  }
}

export const tab = crypto.getRandomValues(new Uint32Array(4)).join("-"); // other tabs use the same server

// ask makes a request and returns the response if its status is a success.
export async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("rlxrun does not answer. Was it ended?");
  }
  if (response.ok) return response;
  let message = `rlxrun answered with status ${response.status}`, code = "";
  try {
    ({ error: message, code } = await response.json());
  } catch { /* not one of our answers */ }
  throw new Failure(message, { code, status: response.status });
}

// json sends a value as JSON and returns the response.
export const json = (path, value, signal) => ask(path, { method: "POST", body: JSON.stringify(value), signal });

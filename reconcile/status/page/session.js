// Requests to the manager, with the reader's token. It is kept in memory alone: other programs may be
// forwarded to the same address later, and would find what is in the storage of the browser.

import { reasonOf } from "./stream.js";

export class Session {
  /** `askForToken()` is called when the manager does not know the reader. */
  constructor(askForToken) {
    this.token = "";
    this.askForToken = askForToken;
  }

  async get(path, signal) {
    const answer = await fetch(path, { headers: this.headers(), signal, cache: "no-store", credentials: "omit" });
    if (answer.status === 401) this.askForToken();
    return answer;
  }

  /** One object's life. Raises an Error in words; its `status` is that of the answer. */
  async life(controller, key, signal) {
    const answer = await this.get(`object?${new URLSearchParams({ controller, key })}`, signal);
    if (!answer.ok) throw await failed(answer);
    return answer.json();
  }

  /** Trigger, pause or resume a key. Raises an Error in words. */
  async act(action, controller, key) {
    const query = new URLSearchParams({ controller, key });
    const answer = await fetch(`../debug/${action}?${query}`, {
      method: "POST",
      headers: { ...this.headers(), "X-Reconcile": "status-page" },
      credentials: "omit",
    });
    if (answer.status === 401) this.askForToken();
    if (!answer.ok) throw await failed(answer);
  }

  headers() {
    return this.token ? { Authorization: `Bearer ${this.token}` } : {};
  }
}

async function failed(answer) {
  const error = new Error(await reasonOf(answer));
  error.status = answer.status;
  return error;
}

// How a request reaches the board: over HTTP to the server of `millrace board`. Every request carries the token of the
// page's address, if there is one. In the page that is one file, send-in-page.ts takes the place of this one
// (package.json, "imports").
export interface Answer {
  ok: boolean;
  status: number;
  text: string;
}

const token = new URLSearchParams(location.search).get("token");

// A body is a plan, as text, or a file. Throws an AbortError, or an error that says why there is no answer.
export async function send(path: string, body?: string | Blob, signal?: AbortSignal): Promise<Answer> {
  const headers: Record<string, string> = token ? { "X-Millrace-Token": token } : {};
  if (body !== undefined)
    headers["Content-Type"] = typeof body === "string" ? "application/json" : "application/octet-stream";
  let answer: Response;
  try {
    answer = await fetch(path, { method: body === undefined ? "GET" : "POST", body, headers, signal });
  } catch (e) {
    if ((e as Error).name === "AbortError") throw e;
    throw new Error("The board's server does not answer. Is `millrace board` still running?");
  }
  return { ok: answer.ok, status: answer.status, text: await answer.text() };
}

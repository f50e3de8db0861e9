// Requests to the server of the board. Every request carries the token of the page's address, if there is one.
import type { BoardFile, Plan, Reason, Result, Start, Sweep } from "./types";

export class ApiError extends Error {
  constructor(message: string, readonly code: string) {
    super(message);
  }
}

const token = new URLSearchParams(location.search).get("token");

async function ask<T>(path: string, body?: BodyInit, signal?: AbortSignal): Promise<T> {
  const headers: Record<string, string> = token ? { "X-Millrace-Token": token } : {};
  if (body !== undefined)
    headers["Content-Type"] = typeof body === "string" ? "application/json" : "application/octet-stream";
  let answer: Response;
  try {
    answer = await fetch(path, { method: body === undefined ? "GET" : "POST", body, headers, signal });
  } catch (e) {
    if ((e as Error).name === "AbortError") throw e;
    throw new ApiError("The board's server does not answer. Is `millrace board` still running?", "UNAVAILABLE");
  }
  const text = await answer.text();
  let value: { error?: { code: string; message: string } };
  try {
    value = JSON.parse(text);
  } catch {
    throw new ApiError(`The server answered ${answer.status} without JSON`, "INTERNAL");
  }
  if (!answer.ok || value.error)
    throw new ApiError(value.error?.message ?? `HTTP ${answer.status}`, value.error?.code ?? "UNKNOWN");
  return value as T;
}

export const api = {
  start: () => ask<Start>("api/start"),
  simulate: (plan: Plan, signal?: AbortSignal) => ask<Result>("api/simulate", JSON.stringify(plan), signal),
  explain: (plan: Plan, node: string, signal?: AbortSignal) =>
    ask<{ reasons: Reason[] }>(`api/explain?node=${encodeURIComponent(node)}`, JSON.stringify(plan), signal),
  sweep: (plan: Plan, what: string, from: number, to: number, signal?: AbortSignal) =>
    ask<Sweep>(`api/sweep?what=${what}&from=${from}&to=${to}`, JSON.stringify(plan), signal),
  upload: (name: string, bytes: Blob) => ask<BoardFile>(`api/files?name=${encodeURIComponent(name)}`, bytes),
};

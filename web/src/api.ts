// Requests to the board.
import { type Answer, send } from "#send";
import type { BoardFile, Plan, Reason, Result, Start, Sweep } from "./types";

export class ApiError extends Error {
  constructor(message: string, readonly code: string) {
    super(message);
  }
}

async function ask<T>(path: string, body?: string | Blob, signal?: AbortSignal): Promise<T> {
  let answer: Answer;
  try {
    answer = await send(path, body, signal);
  } catch (e) {
    if ((e as Error).name === "AbortError") throw e;
    throw new ApiError((e as Error).message, "UNAVAILABLE");
  }
  let value: { error?: { code: string; message: string } };
  try {
    value = JSON.parse(answer.text);
  } catch {
    throw new ApiError(`The board answered ${answer.status} without JSON`, "INTERNAL");
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

// What the border takes: a value of another type would end the real instance, so the scripted host refuses it loudly.

export class Trap extends Error {}

const text = (value) => typeof value === "string" && value.isWellFormed();
const u32 = (value) => Number.isInteger(value) && value >= 0 && value < 2 ** 31;
const u64 = (value) => Number.isInteger(value) && value >= 0 && value <= Number.MAX_SAFE_INTEGER;
const f64 = (value) => typeof value === "number";
const bool = (value) => typeof value === "boolean";
const optional = (check) => (value) => value === null || value === undefined || check(value);
const list = (check) => (value) => Array.isArray(value) && Array.from(value).every(check);
const bytes = (value) => ArrayBuffer.isView(value) && Object.prototype.toString.call(value) === "[object Uint8Array]";
const json = (value) => text(value) && (JSON.parse(value), true);
const oneOf = (...names) => (value) => names.includes(value);
const tuple = (...checks) => (value) => Array.isArray(value) && checks.every((check, index) => check(value[index]));
const record = (fields) => (value) =>
  typeof value === "object" && value !== null && Object.entries(fields).every(([name, check]) => check(value[name]));
const variant = (cases) => (value) =>
  typeof value === "object" && value !== null && Object.hasOwn(cases, value.tag) && (!cases[value.tag] || cases[value.tag](value.val));

const retry = record({ maxAttempts: optional(u32), initialMs: optional(u64), maxMs: optional(u64), multiplier: optional(f64), jitter: optional(f64) });
const attempt = record({ operation: u32, number: u32 });
export const error = record({
  code: text, name: optional(text), message: text, details: optional(json), causes: list(record({ name: optional(text), message: text })),
  retryability: variant({ retry: null, never: null, "after-ms": u64 }), outcomeUnknown: bool,
});
const stepOptions = record({
  retry, timeoutMs: optional(u64), effect: optional(oneOf("repeatable", "keyed", "once")), keyTtlMs: optional(u64),
  operationKey: optional(text), reconciles: bool, approval: optional(() => false), reserve: optional(() => false),
});
const request = record({
  method: text, url: text, headers: list(tuple(text, text)), body: optional(bytes), timeoutMs: optional(u64),
  key: variant({ effect: null, attempt: null, operation: null, none: null, custom: text }), label: optional(text), renewOn: list(u32),
});
const runOptions = record({ runKey: optional(text), detached: bool, onParentClose: oneOf("cancel", "abandon"), tags: list(tuple(text, text)) });
const definition = record({
  name: text, retry, stepTimeoutMs: optional(u64), runTimeoutMs: optional(u64), inputSchema: optional(json), destinations: list(text), secrets: list(text),
});

export const COMMANDS = {
  stepBegin: [text, stepOptions],
  sleep: [u64],
  waitEvent: [text, optional(u64)],
  startRun: [text, json, runOptions],
  sendEvent: [text, text, json],
  close: [u32],
  continueAsNew: [json],
  stepFinish: [attempt, variant({ ok: json, err: error })],
  httpSend: [attempt, request],
  delay: [attempt, u64],
  nowMs: [],
  randomU64: [],
  log: [oneOf("trace", "debug", "info", "warn", "error"), text, optional(json)],
  setStatus: [text],
  runId: [],
};
export const definitions = list(definition);

export function checkCall(name, args) {
  const checks = COMMANDS[name];
  const fits = args.length <= checks.length && checks.every((check, index) => check(args[index]));
  if (!fits) throw new Trap(`${name}(${JSON.stringify(args)}) does not fit the contract`);
}

/// An error record as the host delivers it.
export function wireError(fields = {}) {
  const { retry: given = "retry", ...rest } = fields;
  return {
    code: "workflows.step_failed", name: null, message: "failed", details: null, causes: [], outcomeUnknown: false, ...rest,
    retryability: typeof given === "number" ? { tag: "after-ms", val: given } : { tag: given },
  };
}

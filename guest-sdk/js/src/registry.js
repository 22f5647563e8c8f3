// The module's workflows: registered at its top level, described to the host, found when a run starts.

import { $, Map, Object } from "./primordials.js";
import * as check from "./check.js";
import { ArgumentError, WorkflowError } from "./errors.js";
import { encode } from "./json.js";
import { retryPolicy } from "./step.js";

const FIELDS = ["retry", "timeoutMs", "runTimeoutMs", "inputSchema", "destinations", "secrets"];

const workflows = new Map();

/// Registers a workflow. Its name is what runs are started by; a module has one of each name.
export function workflow(name, handler, options) {
  check.text("workflow, name", name);
  const where = `workflow("${name}")`;
  check.func(`${where}, handler`, handler);
  if (workflows.has(name)) throw new ArgumentError(`${where}: this module has a workflow of that name already`);
  const given = check.options(`${where}, options`, options, FIELDS);
  const definition = {
    name: name[$.toWellFormed](),
    retry: retryPolicy(`${where}, retry`, given.retry),
    stepTimeoutMs: check.optionalMs(`${where}, timeoutMs`, given.timeoutMs),
    runTimeoutMs: check.optionalMs(`${where}, runTimeoutMs`, given.runTimeoutMs),
    inputSchema: given.inputSchema == null ? null : encode(`${where}, inputSchema`, given.inputSchema),
    destinations: check.texts(`${where}, destinations`, given.destinations),
    secrets: check.texts(`${where}, secrets`, given.secrets),
  };
  const registered = Object.freeze({ name: definition.name, handler });
  workflows.set(definition.name, { handler, definition });
  return registered;
}

export function describe() {
  return [...workflows.values()][$.map](({ definition }) => definition);
}

export function findWorkflow(name) {
  const found = workflows.get(name);
  if (!found) {
    const known = [...workflows.keys()][$.map]((known) => `"${known}"`)[$.join](", ") || "none";
    throw new WorkflowError("workflows.unknown_workflow", `this module has no workflow "${name}"; it has ${known}`, {
      retry: "never",
    });
  }
  return found;
}

// A run: starts the handler and hands it what the host delivers, one event a turn, until the handler's promise settles.

import { $, Promise } from "./primordials.js";
import * as host from "./host.js";
import { WorkflowError } from "./errors.js";
import { cancelRun, runContext, whenContinued } from "./context.js";
import { decode, encode } from "./json.js";
import { completeOperation, failOperation, leftOver } from "./operations.js";
import { placeOf } from "./place.js";
import { startPerformance } from "./web/performance.js";
import { fromRecord, toRecord } from "./record.js";
import { findWorkflow } from "./registry.js";
import { runAttempt } from "./step.js";
import { beginWorkflowTurn, expireAttempt, takeExchange } from "./turn.js";

/// Runs a workflow. Resolves to the result's JSON text, or rejects with an error record as the host takes it.
export async function run(name, input) {
  host.goLive();
  let returned = false;
  try {
    startPerformance();
    const workflow = findWorkflow(name);
    const context = runContext(decode(input));
    // The loop over events never ends by itself: the handler's end is the run's.
    const value = await new Promise((resolve, reject) => {
      whenContinued(() => resolve(null));
      handle(workflow, context)[$.then](resolve, reject);
      deliveries()[$.catch](reject);
    });
    returned = true;
    return encode(`the result of workflow "${name}"`, value);
  } catch (thrown) {
    const record = toRecord(thrown, "workflows.workflow_failed");
    const place = placeOf(thrown);
    if (place) host.log("error", `${record.name ?? "an error"} at ${place}`[$.toWellFormed](), null);
    throw host.recordToWire(record);
  } finally {
    for (const what of leftOver(returned)) host.log("warn", what[$.toWellFormed](), null);
  }
}

async function handle(workflow, context) {
  return await workflow.handler(context);
}

async function deliveries() {
  for (;;) dispatch(host.eventFromWire(await host.next()));
}

function dispatch(event) {
  switch (event.kind) {
    case "attempt":
      void runAttempt(event);
      break;
    case "expired":
      expireAttempt(event.id);
      break;
    case "answered":
      answer(event);
      break;
    case "completed":
      beginWorkflowTurn();
      completeOperation(event.operation, event.json);
      break;
    case "failed":
      beginWorkflowTurn();
      failOperation(event.operation, event.error);
      break;
    case "cancelled":
      beginWorkflowTurn();
      cancelRun();
      break;
    default:
      throw new WorkflowError("workflows.internal", `unknown event ${event.kind}`);
  }
}

function answer(event) {
  const exchange = takeExchange(event.exchange);
  if (exchange === undefined) return;
  if (event.error !== null) exchange.reject(fromRecord(event.error, WorkflowError));
  else exchange.resolve(event.response);
}

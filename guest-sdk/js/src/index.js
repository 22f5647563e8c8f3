// The module "stepwell": what a workflow's author imports. Importing it gives the module its globals.

import "./globals.js";

export { workflow } from "./registry.js";
export { race } from "./operations.js";
export { HttpError, NonRetriableError, StepError, WorkflowError } from "./errors.js";
export { RetryAfterError } from "./duration.js";
export { guest } from "./guest.js";

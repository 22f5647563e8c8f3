// What the component exports: the contract's `workflows` interface.

import { describe } from "./registry.js";
import { run } from "./run.js";

export const guest = { describe, run };

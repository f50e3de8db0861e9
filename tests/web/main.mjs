// node main.mjs BUILD [PART]: runs the tests whose name contains PART.
import { runTests } from "./harness.mjs";
import "./test_files.mjs";
import "./test_step.mjs";
import "./test_graph.mjs";
import "./test_training.mjs";
import "./test_stories.mjs";
import "./test_address.mjs";
import "./test_drop.mjs";
import "./test_access.mjs";
import "./test_server.mjs";

process.exit((await runTests(process.argv[2], process.argv[3] ?? "")) ? 0 : 1);

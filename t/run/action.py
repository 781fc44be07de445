# SPDX-License-Identifier: MIT
"""Runs the steps of contrib/action/action.yml as a runner does: action.py ACTION.YML STATE.json NAME=VALUE...

Prints a line for each step: its name and status. `uses:` steps are not run; what they would take is printed with the files there.
"""
import json
import os
import re
import subprocess
import sys

import yaml


def check(action):
    """The parts of the schema of composite actions that this one must keep to."""
    assert set(action) <= {"name", "description", "inputs", "outputs", "runs", "author", "branding"}, set(action)
    assert action["name"] and action["description"]
    for name, value in action["inputs"].items():
        assert set(value) <= {"description", "required", "default"}, name
        assert value["description"], name
        assert value.get("required") or isinstance(value["default"], str), f"{name}: a default is a string"
    assert action["runs"]["using"] == "composite"
    for step in action["runs"]["steps"]:
        assert set(step) <= {"name", "id", "if", "shell", "env", "run", "uses", "with"}, step
        assert ("run" in step) != ("uses" in step), step
        assert "run" not in step or step["shell"], "a run step of a composite action needs its shell"


def fill(text, inputs, outputs):
    def value(match):
        what = match.group(1).strip()
        if what.startswith("inputs."):
            return inputs[what[len("inputs."):]]
        step, name = re.fullmatch(r"steps\.(\w+)\.outputs\.(\w+)", what).groups()
        return outputs[step][name]

    return re.sub(r"\$\{\{(.*?)\}\}", value, text)


def condition(text, failed):
    what = re.fullmatch(r"\$\{\{\s*(.*?)\s*\}\}", text).group(1) if text.startswith("${{") else text
    return {"success()": not failed, "failure()": failed, "always()": True}[what]


def run_step(step, inputs, outputs, where):
    """A run step; its status."""
    out = f"{where}.output"
    open(out, "w").close()
    env = dict(os.environ, GITHUB_ACTION_PATH=os.path.dirname(os.path.abspath(sys.argv[1])), GITHUB_ACTIONS="true", GITHUB_OUTPUT=os.path.abspath(out),
               GITHUB_STEP_SUMMARY=os.path.abspath(f"{where}.summary"))
    env.update({k: fill(v, inputs, outputs) for k, v in step.get("env", {}).items()})
    shell = {"bash": ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"], "sh": ["sh", "-e", "-c"]}[step["shell"]]
    status = subprocess.run(shell + [fill(step["run"], inputs, outputs)], env=env, timeout=200 * float(os.environ.get("E2E_PATIENCE", "1")), check=False).returncode
    outputs[step.get("id", "_")] = dict(line.rstrip("\n").split("=", 1) for line in open(out, encoding="utf-8"))
    return status


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        action = yaml.safe_load(f)
    check(action)
    given = dict(a.split("=", 1) for a in sys.argv[3:])
    assert set(given) <= set(action["inputs"]), given
    inputs = {k: given.get(k, v.get("default", "")) for k, v in action["inputs"].items()}
    assert all(inputs[k] for k, v in action["inputs"].items() if v.get("required")), "a required input is missing"
    failed, outputs, kept = False, {}, []
    for n, step in enumerate(action["runs"]["steps"]):
        if not condition(step.get("if", "success()"), failed):
            continue
        if "run" in step:
            status = run_step(step, inputs, outputs, f"{sys.argv[2]}.{n}")
            print(f"{step['name']}: {status}", flush=True)
            failed |= status != 0
        else:
            assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"]), step["uses"]
            path = fill(step["with"]["path"], inputs, outputs)
            kept = sorted(os.listdir(path)) if os.path.isdir(path) else []
            print(f"{step['name']}: {' '.join(kept)}", flush=True)
    result = {k: fill(v["value"], inputs, outputs) for k, v in action["outputs"].items()}
    with open(sys.argv[2], "w", encoding="utf-8") as f:
        json.dump({"failed": failed, "outputs": result, "kept": kept}, f)
    return 0


sys.exit(main())

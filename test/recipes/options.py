"""Extracts the names of the options of reinforcement learning frameworks, and of vLLM, from their sources.

    options.py FRAMEWORK SOURCE      SOURCE is site-packages with the framework's wheel, or a checkout of its repository

Writes one name a line. `make check-recipes` compares them with test/recipes/options/FRAMEWORK.txt, which TestRecipes reads.
"""

import ast
import os
import re
import sys


def flat(value, prefix=""):
    """The dotted names of a nested mapping, inner ones included."""
    found = set()
    for key, below in value.items():
        found.add(prefix + str(key))
        if isinstance(below, dict):
            found |= flat(below, prefix + str(key) + ".")
    return found


def flags(path):
    """The flags of a program that adds them with argparse, without running it. An f-string's names are those of the loop around it."""
    with open(path) as file:
        tree = ast.parse(file.read())
    found = set()

    def visit(node, names):
        if isinstance(node, ast.For) and isinstance(node.target, ast.Name) and isinstance(node.iter, (ast.Tuple, ast.List)):
            names = dict(names, **{node.target.id: [item.value for item in node.iter.elts if isinstance(item, ast.Constant)]})
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("add_argument", "reset_arg"):
            for argument in node.args:
                found.update(text for text in texts(argument, names) if text.startswith("--"))
        for child in ast.iter_child_nodes(node):
            visit(child, names)

    visit(tree, {})
    return found


def texts(node, names):
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if not isinstance(node, ast.JoinedStr):
        return []
    found = [""]
    for part in node.values:
        if isinstance(part, ast.Constant):
            choices = [part.value]
        else:
            choices = names.get(getattr(part.value, "id", ""), [])
        found = [text + str(choice) for text in found for choice in choices]
    return found


def verl(source):
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf
    with initialize_config_dir(config_dir=os.path.join(source, "verl/trainer/config"), version_base=None):
        return flat(OmegaConf.to_container(compose("ppo_trainer"), resolve=False))


def openrlhf(source):
    return flags(os.path.join(source, "openrlhf/cli/train_ppo_ray.py"))


def nemo(source):
    import yaml
    with open(os.path.join(source, "examples/configs/grpo_math_1B.yaml")) as file:
        return flat(yaml.safe_load(file))


def skyrl(source):
    return fields(os.path.join(source, "skyrl/train/config/config.py"), "SkyRLTrainConfig")


def areal(source):
    return fields(os.path.join(source, "areal/api/cli_args.py"), "GRPOConfig")


def trinity(source):
    return fields(os.path.join(source, "trinity/common/config.py"), "Config")


def roll(source):
    return fields([os.path.join(source, "roll", name) for name in (
        "pipeline/rlvr/rlvr_config.py", "configs/base_config.py", "configs/worker_config.py", "configs/model_args.py", "configs/data_args.py",
        "configs/generating_args.py", "configs/training_args.py")], "RLVRConfig")


def fields(paths, root):
    """The dotted names of nested dataclasses, read without importing them. A field whose type is no dataclass of these files is a leaf;
    the keys of a dictionary are *."""
    classes = {}
    for path in [paths] if isinstance(paths, str) else paths:
        with open(path) as file:
            for node in ast.walk(ast.parse(file.read())):
                if isinstance(node, ast.ClassDef):
                    classes.setdefault(node.name, node)

    def of(name, prefix, above):
        found, node = set(), classes[name]
        for base in node.bases:
            if getattr(base, "id", "") in classes:
                found |= of(base.id, prefix, above)
        for item in node.body:
            if not isinstance(item, ast.AnnAssign):
                continue
            text = ast.unparse(item.annotation)
            if text.startswith("ClassVar"):
                continue
            found.add(prefix + item.target.id)
            key = ".*" if re.match(r"(Optional\[)?[Dd]ict\b", text) else ""
            kinds = [kind for kind in re.findall(r"\w+", text) if kind in classes]
            if key and not kinds:
                found.add(prefix + item.target.id + key)
            for kind in kinds:
                if kind not in above:
                    found |= of(kind, prefix + item.target.id + key + ".", above | {kind})
        return found

    return of(root, "", {root})


def llm(source):
    """What engine_kwargs of ray.serve.llm may have: vllm_models.py of Ray looks into both."""
    return fields(os.path.join(source, "vllm/engine/arg_utils.py"), "AsyncEngineArgs") | fields(
        os.path.join(source, "vllm/entrypoints/launchers/cli_args.py"), "FrontendArgs")


def megatron(name):
    """slime and Miles: the flags that they define, and those of Megatron and SGLang that their own launch scripts use."""
    def of(source):
        found = set()
        for folder, _, names in os.walk(os.path.join(source, name)):
            for file in names:
                if file.endswith(".py") and "arguments" in os.path.join(folder, file):
                    found |= flags(os.path.join(folder, file))
        scripts = os.path.join(source, "scripts")
        for file in sorted(os.listdir(scripts)):
            if re.match(r"run[-_].*\.(sh|py)$", file):
                with open(os.path.join(scripts, file)) as text:
                    for line in text:
                        if not line.strip().startswith("#"):
                            found |= set(re.findall(r"""(?:^|[\s"'{])(--[a-z][a-z0-9-]+)""", line))
        return found
    return of


FRAMEWORKS = {"verl": verl, "openrlhf": openrlhf, "nemo-rl": nemo, "skyrl": skyrl, "slime": megatron("slime"), "miles": megatron("miles"),
              "areal": areal, "trinity": trinity, "roll": roll, "llm": llm}

if __name__ == "__main__":
    print("\n".join(sorted(FRAMEWORKS[sys.argv[1]](sys.argv[2]))))

"""Has a framework's own parser read a recipe's arguments: parse.py FRAMEWORK SOURCE ARGUMENT..."""

import contextlib
import io
import os
import sys


def verl(source, arguments):
    from hydra import compose, initialize_config_dir
    with initialize_config_dir(config_dir=os.path.join(source, "verl/trainer/config"), version_base=None):
        config = compose("ppo_trainer", overrides=arguments)
    return config.trainer.nnodes, config.trainer.n_gpus_per_node


def nemo(source, arguments):
    """As load_config and parse_hydra_overrides of nemo_rl/utils/config.py do, which is loaded without the package's imports."""
    import importlib.util
    spec = importlib.util.spec_from_file_location("nemo_config", os.path.join(source, "nemo_rl/utils/config.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.register_omegaconf_resolvers()
    config = module.parse_hydra_overrides(module.load_config(os.path.join(source, "examples/configs/grpo_math_1B.yaml")), arguments)
    return config.cluster.num_nodes, config.cluster.gpus_per_node


def skyrl(source, arguments):
    """What its configuration imports of its own backends is replaced: they want torch and vLLM."""
    import importlib.abc
    import importlib.machinery
    import unittest.mock

    class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
        def find_spec(self, name, path=None, target=None):
            return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.startswith("skyrl.backends") else None

        def create_module(self, spec):
            module = unittest.mock.MagicMock(name=spec.name)
            module.__spec__, module.__path__, module.__name__ = spec, [], spec.name
            return module

        def exec_module(self, module):
            pass

    sys.meta_path.insert(0, Absent())
    from skyrl.train.config import SkyRLTrainConfig
    config = SkyRLTrainConfig.from_cli_overrides(arguments)
    return config.trainer.placement.policy_num_nodes, config.trainer.placement.policy_num_gpus_per_node


def openrlhf(source, arguments):
    """argparse with the calls of the program, whose imports need a GPU."""
    import argparse
    import ast
    import datetime
    with open(os.path.join(source, "openrlhf/cli/train_ppo_ray.py")) as file:
        tree = ast.parse(file.read())
    main = next(node for node in tree.body if isinstance(node, ast.If) and "__main__" in ast.unparse(node.test))
    body = []
    for node in main.body:
        if "parse_args" in ast.unparse(node):
            break
        body.append(node)
    scope = {"argparse": argparse, "datetime": datetime.datetime}
    exec(compile(ast.Module(body, []), "train_ppo_ray.py", "exec"), scope)
    args = vars(scope["parser"].parse_args(arguments))
    return args["actor.num_nodes"], args["actor.num_gpus_per_node"]


PARSERS = {"verl": verl, "nemo-rl": nemo, "skyrl": skyrl, "openrlhf": openrlhf}


def main(name, source, arguments):
    """Reads the arguments, which are for 3 nodes with 4 GPUs, and then without one that has a wrong name."""
    parse = PARSERS[name]
    sizes = parse(source, arguments)
    if sizes != (3, 4):
        sys.exit("%s reads the sizes %s" % (name, sizes))
    at = next(i for i, text in enumerate(arguments) if "nodes" in text)
    wrong = list(arguments)
    wrong[at] = wrong[at].replace("nodes", "nodez")
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # argparse's usage
            parse(source, wrong)
    except (Exception, SystemExit) as error:
        print("%s: %d arguments are read; %s: %s" % (name, len(arguments), wrong[at], type(error).__name__))
    else:
        sys.exit("%s takes %s" % (name, wrong[at]))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])

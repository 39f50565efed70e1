"""Has a framework's own parser read a recipe's arguments: parse.py FRAMEWORK SOURCE ARGUMENT...

For AReaL, SOURCE is SITE:CHECKOUT, of which the checkout has its examples; for Trinity and ROLL, the argument is the text of the configuration.
"""

import contextlib
import importlib.abc
import importlib.machinery
import io
import os
import re
import sys
import tempfile
import types
import unittest.mock


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Replaces packages that a framework imports for its GPUs."""

    def __init__(self, *packages):
        self.packages = packages

    def find_spec(self, name, path=None, target=None):
        if any(name == package or name.startswith(package + ".") for package in self.packages):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = unittest.mock.MagicMock(name=spec.name)
        module.__spec__, module.__path__, module.__name__ = spec, [], spec.name
        return module

    def exec_module(self, module):
        pass


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
    sys.meta_path.insert(0, Absent("skyrl.backends"))
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


def bare(directory, *packages):
    """Makes packages that import nothing themselves."""
    for name in packages:
        package = types.ModuleType(name)
        package.__path__ = [os.path.join(directory, *name.split("."))]
        sys.modules.setdefault(name, package)


def areal(source, arguments):
    """Its cli_args.py, without what its packages import when they are imported themselves. The GPUs of both backends are those of the cluster."""
    site, checkout = source.split(":")
    sys.meta_path.insert(0, Absent("torch", "transformers", "numba", "areal.infra"))
    bare(site, "areal", "areal.engine", "areal.engine.fsdp_utils")
    from areal.api import alloc_mode, cli_args
    from omegaconf import OmegaConf
    config, _ = cli_args.parse_cli_args(["--config", os.path.join(checkout, "examples/math/gsm8k_grpo.yaml")] + arguments)
    config = OmegaConf.to_object(cli_args.to_structured_cfg(config, cli_args.GRPOConfig))
    gpus = sum(alloc_mode.ModelAllocation.from_str(engine.backend).parallel.world_size for engine in (config.rollout, config.actor))
    if gpus != config.cluster.n_nodes * config.cluster.n_gpus_per_node:
        sys.exit("%s and %s have %d GPUs" % (config.rollout.backend, config.actor.backend, gpus))
    return config.cluster.n_nodes, config.cluster.n_gpus_per_node


def trinity(source, arguments):
    sys.meta_path.insert(0, Absent("torch", "transformers", "trinity.common.patch", "trinity.utils.lora_utils"))
    from trinity.common.config import load_config
    from trinity.common.config_validator import RayClusterConfigValidator
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(arguments[0])
        file.flush()
        config = load_config(file.name)
    RayClusterConfigValidator().validate(config)  # there are GPUs for the trainer, and they are whole nodes
    with open(os.path.join(source, "trinity/cli/launcher.py")) as file:
        if not re.search(r"^def run_stage\(config: Config\) -> StageStatus:$", file.read(), re.M):
            sys.exit("run.py of the recipe calls run_stage, which is another function now")
    return config.cluster.node_num, config.cluster.gpu_per_node


def roll(source, arguments):
    """As examples/start_rlvr_pipeline.py does, which leaves out unknown keys: here they are refused. The driver's node has 4 GPUs."""
    sys.meta_path.insert(0, Absent("torch", "transformers", "ray", "roll.platforms", "roll.utils.logging", "roll.utils.functionals", "roll.datasets"))
    sys.path.insert(0, source)
    bare(source, "roll.pipeline", "roll.pipeline.rlvr")
    from dacite import Config, from_dict
    from omegaconf import OmegaConf
    from roll.pipeline.rlvr.rlvr_config import RLVRConfig
    from roll.platforms import current_platform
    current_platform.device_count.return_value = 4
    values = OmegaConf.to_container(OmegaConf.create(arguments[0]), resolve=True)
    del values["hydra"]
    config = from_dict(RLVRConfig, values, Config(strict=True))
    return config.num_nodes, config.num_gpus_per_node


PARSERS = {"verl": verl, "nemo-rl": nemo, "skyrl": skyrl, "openrlhf": openrlhf, "areal": areal, "trinity": trinity, "roll": roll}

NODES = re.compile(r"(nodes|node_num|device_mapping)(?=[=:]|$)", re.M)  # in a name


def main(name, source, arguments):
    """Reads the arguments, which are for 3 nodes with 4 GPUs, and then without one that has a wrong name."""
    parse = PARSERS[name]
    sizes = parse(source, arguments)
    if sizes != (3, 4):
        sys.exit("%s reads the sizes %s" % (name, sizes))
    at = next(i for i, text in enumerate(arguments) if NODES.search(text))
    wrong = list(arguments)
    wrong[at] = NODES.sub("nodez", wrong[at], count=1)
    shown = re.search(r".*nodez.*", wrong[at]).group()
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # argparse's usage
            parse(source, wrong)
    except (Exception, SystemExit) as error:
        print("%s: %d arguments are read; %s: %s" % (name, len(arguments), shown.strip(), type(error).__name__))
    else:
        sys.exit("%s takes %s" % (name, shown.strip()))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])

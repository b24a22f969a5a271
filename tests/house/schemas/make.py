#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make: writes the schemas of this folder anew, from packages of PyPI (README.md says which).

usage: make.py FOLDER     with the packages unpacked in it (pip download --no-deps; unzip)

Needs PyYAML and pydantic (which kubeflow_trainer_api needs itself). Of each schema it keeps what the
manifests in contrib use: every property that is there is checked, and any other is refused. A property
that the package does not know is an error here.
"""

import ast
import gzip
import importlib.util
import json
import sys
import types
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
CONTRIB = HERE.parents[2] / "contrib"
KUBERNETES = "kubernetes_validate/kubernetes-json-schema/v1.34.0-local-strict/_definitions.json"
KEPT = ("type", "enum", "format", "pattern", "minimum", "maximum", "minItems", "maxItems", "uniqueItems")


class Unknown(Exception):
    """A manifest has a property that the schema does not have."""


class Cutter:
    """resolve: the schema that a name of a $ref stands for."""

    def __init__(self, resolve):
        self.resolve = resolve

    def plain(self, schema):
        """The schema without references, and without the "or null" of pydantic's optional fields."""
        while True:
            choices = [c for c in schema.get("anyOf", []) if c.get("type") != "null"]
            if "$ref" in schema:
                schema = self.resolve(schema["$ref"])
            elif len(choices) == 1:
                schema = choices[0]
            else:
                return schema

    def cut(self, schema, values, where):
        """The part of the schema that these values (all at this place) use."""
        schema = self.plain(schema)
        if "anyOf" in schema or "oneOf" in schema:
            return self.cut_choices(schema, values, where)
        kept = {key: schema[key] for key in KEPT if key in schema}
        if all(isinstance(value, dict) for value in values) and "properties" in schema:
            return kept | self.cut_object(schema, values, where)
        if all(isinstance(value, dict) for value in values) and schema.get("additionalProperties"):
            inner = [v for value in values for v in value.values()]
            return kept | {"additionalProperties": self.cut(schema["additionalProperties"], inner, f"{where}.*")}
        if all(isinstance(value, list) for value in values) and "items" in schema:
            inner = [v for value in values for v in value]
            return kept | {"items": self.cut(schema["items"], inner, f"{where}[]")}
        return kept

    def cut_choices(self, schema, values, where):
        """Choices of simple types stay; of other choices, the one that has the properties."""
        key = "anyOf" if "anyOf" in schema else "oneOf"
        choices = [self.plain(choice) for choice in schema[key]]
        if any(isinstance(value, (dict, list)) for value in values):
            of_type = {"object": dict, "array": list}
            choices = [c for c in choices if isinstance(values[0], of_type.get(c.get("type"), ()))]
            return self.cut(choices[0], values, where)
        return {key: [{k: c[k] for k in KEPT if k in c} for c in choices]}

    def cut_object(self, schema, values, where):
        used = {}
        for value in values:
            for name, inner in value.items():
                used.setdefault(name, []).append(inner)
        if unknown := set(used) - set(schema["properties"]):
            raise Unknown(f"{where} has {sorted(unknown)}, which the schema has not")
        return {"type": "object", "additionalProperties": False,
                "required": sorted(set(schema.get("required", [])) & set(used)),
                "properties": {name: self.cut(schema["properties"][name], inner, f"{where}.{name}")
                               for name, inner in sorted(used.items())}}


def documents(folder):
    """{kind: [document]}"""
    kinds = {}
    for path in sorted((CONTRIB / folder).glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            kinds.setdefault(document.get("kind"), []).append(document)
    return kinds


def definitions(root):
    return json.loads((root / KUBERNETES).read_text())["$defs"]


def kubernetes(root):
    known = definitions(root)
    cutter = Cutter(lambda ref: known[ref.rsplit("/", 1)[1]])
    kinds = documents("kubernetes")
    return {kind: cutter.cut(known[name], kinds[kind], kind) for kind, name in
            (("Job", "io.k8s.api.batch.v1.Job"), ("Service", "io.k8s.api.core.v1.Service"))}


def kubeflow_trainer(root):
    """JobSet, TrainingRuntime, TrainJob: models of pydantic."""
    sys.path.insert(0, str(root))
    import kubeflow_trainer_api.models as models
    kinds, made = documents("kubernetes"), {}
    for kind, name in (("JobSet", "JobsetV1alpha2JobSet"), ("TrainJob", "TrainerV1alpha1TrainJob"),
                       ("TrainingRuntime", "TrainerV1alpha1TrainingRuntime")):
        schema = getattr(models, name).model_json_schema()
        # A quantity, "8" or 8, is an object to these models.
        known = schema["$defs"] | {"IoK8sApimachineryPkgApiResourceQuantity":
                                   {"oneOf": [{"type": "string"}, {"type": "number"}]}}
        cutter = Cutter(lambda ref, known=known: known[ref.rsplit("/", 1)[1]])
        made[kind] = cutter.cut(schema, kinds[kind], kind)
    return made


def attributes(path):
    """The literal attributes of the class in a file of generated models."""
    tree = ast.parse(path.read_text())
    body = next(node for node in tree.body if isinstance(node, ast.ClassDef)).body
    return {node.targets[0].id: ast.literal_eval(node.value) for node in body
            if isinstance(node, ast.Assign)}


def kubeflow_v1(root):
    """PyTorchJob: models of the OpenAPI generator, {"replicas": "int", ...}; the pods are Kubernetes'."""
    folder = root / "kubeflow/training/models"
    files = {"".join(word.title() for word in path.stem.split("_")): path for path in folder.glob("kubeflow_*.py")}
    files = {name.replace("Pytorch", "PyTorch"): path for name, path in files.items()}
    known = definitions(root)
    simple = {"str": "string", "int": "integer", "bool": "boolean"}

    def schema_of(kind):
        if kind in simple:
            return {"type": simple[kind]}
        if kind.startswith("dict(str, "):
            return {"type": "object", "additionalProperties": {"$ref": kind[len("dict(str, "):-1]}}
        if kind == "V1ObjectMeta":
            return {"$ref": "/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
        if kind == "V1PodTemplateSpec":
            return {"$ref": "/io.k8s.api.core.v1.PodTemplateSpec"}
        return {"$ref": kind}

    def resolve(ref):
        name = ref.rsplit("/", 1)[-1]
        if name in known:
            return known[name]
        if name not in files:
            return schema_of(name)
        own = attributes(files[name])
        return {"type": "object", "properties": {own["attribute_map"][field]: schema_of(kind)
                                                 for field, kind in own["openapi_types"].items()}}

    return {"PyTorchJob": Cutter(resolve).cut({"$ref": "KubeflowOrgV1PyTorchJob"},
                                              documents("kubernetes")["PyTorchJob"], "PyTorchJob")}


def aws_batch(root):
    """RegisterJobDefinition, as botocore describes it."""
    shapes = json.loads(gzip.decompress((root / "botocore/data/batch/2016-08-10/service-2.json.gz").read_bytes()))
    shapes = shapes["shapes"]

    def resolve(name):
        shape = shapes[name]
        if shape["type"] == "structure":
            return {"type": "object", "required": shape.get("required", []),
                    "properties": {key: {"$ref": member["shape"]} for key, member in shape["members"].items()}}
        if shape["type"] == "list":
            return {"type": "array", "items": {"$ref": shape["member"]["shape"]}}
        if shape["type"] == "map":
            return {"type": "object", "additionalProperties": {"$ref": shape["value"]["shape"]}}
        if "enum" in shape:
            return {"type": "string", "enum": shape["enum"]}
        return {"type": {"long": "integer", "float": "number", "double": "number"}.get(shape["type"], shape["type"])}

    values = [json.loads(path.read_text()) for path in sorted((CONTRIB / "aws-batch").glob("*.json"))]
    return {"RegisterJobDefinition": Cutter(resolve).cut({"$ref": "RegisterJobDefinitionRequest"}, values, "job")}


class Absent:
    """Stands for all that SkyPilot's schemas take from the rest of SkyPilot: names of clouds and the like."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_args, **_more):
        return self

    def __iter__(self):
        return iter(())


def skypilot(root):
    for name in ("sky", "sky.skylet", "sky.utils", "sky.clouds", "sky.data", "sky.server"):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__getattr__ = lambda attribute: Absent()
    spec = importlib.util.spec_from_file_location("sky_schemas", root / "sky/utils/schemas.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # These concern clouds, a user's own configuration and plugins, not the task.
    module._task_config_schema, module._get_infra_pattern = dict, str
    module._allow_additional_properties = bool
    task = module.get_task_schema()
    task["properties"]["resources"] = module._get_single_resources_schema()
    values = [yaml.safe_load(path.read_text()) for path in sorted((CONTRIB / "skypilot").glob("*.yaml"))]
    return {"task": Cutter(None).cut(task, values, "task")}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.split("\n\n")[1])
    root = Path(sys.argv[1])
    made = {"kubernetes": kubernetes(root), "kubeflow-trainer": kubeflow_trainer(root), "kubeflow-v1": kubeflow_v1(root),
            "aws-batch": aws_batch(root), "skypilot": skypilot(root)}
    for name, schemas in made.items():
        (HERE / f"{name}.json").write_text(json.dumps(schemas, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    try:
        main()
    except Unknown as why:
        sys.exit(f"make.py: {why}")

"""YAML that a person wrote: its keys are texts, as they are written, and none may be given twice."""

import yaml


def read_yaml(text: bytes) -> object:
    """Return the content of a document.

    Raises:
        ValueError: If it is none, a value is impossible, such as a day that does not exist, or a key is given twice.
    """
    try:
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from error


class _Loader(yaml.SafeLoader):
    """Reads `010: x` as `{"010": x}`, where the number would be 8."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                continue
            if key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"'{key.value}' is given twice", problem_mark=key.start_mark
                )
            seen.add(key.value)
            key.tag = "tag:yaml.org,2002:str"
        return super().construct_mapping(node, deep)

"""Checks that docker-compose.yml follows .env.

changed.py .env                  prints it with another value for each variable
changed.py CHANGED CONFIG.json   checks what `docker compose --env-file CHANGED config --format json` prints
"""

import json
import re
import sys


def variables(path):
    return dict(re.findall(r"^([A-Z_]+)=(.*)$", open(path).read(), re.MULTILINE))


def changed(name, value):
    if name.endswith("_PORT"):
        return str(int(value) + 1000)
    if name.endswith("_IMAGE"):
        return f"registry.example.org/{name.removesuffix('_IMAGE').lower()}:9.8.7"
    return {"ADMIN_TOKEN": "another-token-of-this-machine", "DEMO_RATE": "7/s"}[name]


def problems(new, services):
    """Yields what does not follow .env."""
    published = {
        port["published"]: (service, port["target"] == 9465)
        for service, each in services.items()
        for port in each.get("ports", [])
    }
    images = {each["image"] for each in services.values()}
    for name, value in new.items():
        if name.endswith("_PORT"):
            owner = name.removesuffix("_PORT").removesuffix("_ADMIN").lower().replace("_", "-")
            if published.pop(value, None) != (owner, "_ADMIN_" in name):
                yield f"{name}: {owner} does not publish {value}"
        elif name.endswith("_IMAGE"):
            if value not in images:
                yield f"{name}: no service uses {value}"
            images.discard(value)
    for port, (service, _) in published.items():
        yield f"{service}: port {port} is not one of .env"
    for image in images:
        yield f"image {image} is not one of .env"
    listeners = services["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    if not listeners.endswith(f"//localhost:{new['KAFKA_PORT']}"):
        yield f"kafka: advertises {listeners}"
    for name in ("dupgate-a", "dupgate-b", "worker"):
        if services[name]["environment"]["ADMIN_TOKEN"] != new["ADMIN_TOKEN"]:
            yield f"{name}: does not have the token"
    if new["DEMO_RATE"] not in services["demo"]["command"]:
        yield f"demo: does not have the rate: {services['demo']['command']}"


def main():
    given = variables(sys.argv[1])
    if len(sys.argv) == 2:
        print("".join(f"{name}={changed(name, value)}\n" for name, value in given.items()), end="")
        return 0
    found = list(problems(given, json.load(open(sys.argv[2]))["services"]))
    print(*found, sep="\n", end="\n" if found else "", file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())

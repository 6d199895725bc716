"""The way to the package indexes of Maven and Gradle."""

import json
import re
from xml.etree.ElementTree import Element, SubElement, tostring

from sandbox.index_routes import Asked, Route, host_of

# Tests without a network need them as well: caches are kept by the name of the index.
MAVEN_SETTINGS = "~/.m2/settings.xml"
GRADLE_INIT = "~/.gradle/init.d/harness.gradle"

_MAVEN_MIRROR = re.compile(r"^mirror\.(.+)\.url$")
_SOME_DISTRIBUTION = "gradle-4.4.1-bin.zip"
_GRADLE_SCRIPT = """\
def mirrors = %s
def replace = { repositories ->
    repositories.withType(MavenArtifactRepository) {
        if (it.url.scheme?.startsWith('http') && !(it.url.toString() in mirrors)) {
            repositories.remove(it)
        }
    }
    mirrors.each { mirror ->
        repositories.maven {
            url = mirror
            if (delegate.hasProperty('allowInsecureProtocol')) { allowInsecureProtocol = true }
        }
    }
}
settingsEvaluated { settings ->
    replace(settings.pluginManagement.repositories)
    if (settings.hasProperty('dependencyResolutionManagement')) {
        replace(settings.dependencyResolutionManagement.repositories)
    }
}
allprojects {
    replace(buildscript.repositories)
    replace(repositories)
}
"""


def maven_route(asked: Asked) -> Route:
    """Return the way to Maven's central repository or the mirrors of this machine."""
    options = asked.options
    ids = [found[1] for key in options if (found := _MAVEN_MIRROR.match(key))]
    mirrors = {one: options[f"mirror.{one}.url"] for one in ids}
    of = {one: options.get(f"mirror.{one}.mirrorOf", "") for one in ids}
    central = next((one for one in ids if of[one] == "central"), None)
    central = central or next((one for one in ids if _is_of_central(of[one])), "")
    secret = [url.partition(":")[2] for one, url in mirrors.items() if f"server.{one}" in options]
    urls = asked.urls(mirrors.get(central, ""), mirrors.values(), secret)
    used = [one for one in ids if mirrors[one] in urls.usable]
    if not used:
        return Route(urls.hosts, notices=urls.notices)
    settings = Element("settings")
    within = SubElement(settings, "mirrors")
    for one in used:
        mirror = SubElement(within, "mirror")
        for tag, text in (("id", one), ("mirrorOf", of[one]), ("url", mirrors[one])):
            SubElement(mirror, tag).text = text
    return Route(urls.hosts, files={MAVEN_SETTINGS: tostring(settings)}, notices=urls.notices)


def _is_of_central(patterns: str) -> bool:
    """Return whether a mirror with this `mirrorOf` stands in for Maven's central repository."""
    named = {one.strip() for one in patterns.split(",")}
    return "!central" not in named and bool(named & {"*", "external:*", "central"})


def gradle_route(asked: Asked) -> Route:
    """Return the way for Gradle: its distributions, and its repositories or those in their place.

    In their place are the repositories of this machine's init scripts.
    """
    mirrors = asked.options.get("repositories", "").split()
    secret = [url.partition(":")[2] for url in asked.options.get("with-password", "").split()]
    urls = asked.urls(mirrors[0] if mirrors else "", mirrors, secret)
    if urls.refused:
        return Route(notices=urls.notices)
    distributions = (asked.default() if mirrors else urls.default)[:1]
    found = [asked.redirects(f"{one}/{_SOME_DISTRIBUTION}") for one in distributions]
    wrapper = (*distributions, *(url for urls in found for url in urls))
    hosts = (*map(host_of, wrapper), *urls.hosts)
    if not mirrors:
        return Route(hosts, notices=urls.notices)
    script = _GRADLE_SCRIPT % json.dumps(urls.usable).replace("$", "\\$")
    return Route(hosts, files={GRADLE_INIT: script.encode()}, notices=urls.notices)

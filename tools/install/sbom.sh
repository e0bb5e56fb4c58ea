#!/bin/sh
# Prints an SPDX 2.3 document (JSON): the program, the packages of .ci/packages.txt that it is
# built, tested and checked with, those whose libraries it is linked with, and those that its own
# package recommends because it opens their libraries when it needs them; with the versions of dpkg.
# A package that is not installed stands there without a version. The same packages give the same
# bytes; the date is SOURCE_DATE_EPOCH, or that of the last commit, or 1970.
# usage: sbom.sh VERSION [PROGRAM [CROSS_ROOT]]   (CROSS_ROOT: what cross_root.sh made, for a
# program of
# another architecture)
set -eu
version=$1
program=${2-}
other=${3-}
root=$(cd "$(dirname "$0")/../.." && pwd)
export LC_ALL=C
epoch=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || echo 0)}
created=$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)
distribution=$(sed -n 's/^ID=//p' /etc/os-release 2>/dev/null | tr -d '"')

# usage: query ARGUMENTS...   (dpkg-query for the architecture of the program)
query() {
  dpkg-query ${other:+"--admindir=$other/var/lib/dpkg"} "$@"
}

# Paths of the libraries that the program is linked with, and of those that these are linked with.
libraries() {
  if [ -z "$other" ]; then
    ldd "$program" | awk '$3 ~ /^\// { print $3 }'
    return
  fi
  files=$program seen=
  while [ -n "$files" ]; do
    # shellcheck disable=SC2086  # one word per file
    names=$(readelf -d $files | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p' | sort -u)
    files=
    for name in $names; do
      case " $seen " in *" $name "*) continue ;; esac
      seen="$seen $name"
      for file in "$other"/usr/lib/*/"$name"; do
        echo "${file#"$other"}"
        files="$files $file"
      done
    done
  done
}

# "RELATION NAME" of each package, sorted.
named() {
  awk '
    { sub(/#.*/, "") }
    /^\[/ { gsub(/[][ \t]/, ""); section = $0; next }
    NF { sub(/\?$/, "", $1)
      relation = section ~ /^(test|soak)$/ ? "TEST" : section ~ /^(check|arm64)$/ ? "DEV" : "BUILD"
      print relation "_DEPENDENCY_OF", $1 }' "$root/.ci/packages.txt"
  sed -n 's/^set(CPACK_DEBIAN_MOEPACK_PACKAGE_RECOMMENDS "\(.*\)")/\1/p' \
    "$root/tools/install/packages.cmake" | tr -d , | tr ' ' '\n' |
    sed 's/^/RUNTIME_DEPENDENCY_OF /'
  [ -n "$program" ] && command -v dpkg-query >/dev/null || return 0
  libraries | while read -r library; do
    # dpkg knows a file by the path that its package has, with or without /usr.
    { query -S "$library" || query -S "/usr$library" || query -S "${library#/usr}"; } 2>/dev/null |
      sed 's/[:,].*//; s/^/RUNTIME_DEPENDENCY_OF /; q'
  done
}

# "RELATION NAME VERSION ARCHITECTURE", the last two empty where dpkg has no such package.
known() {
  format='${db:Status-Status} ${Version} ${Architecture}\n'
  named | sort -u | while read -r relation name; do
    facts=$({ query -W -f "$format" "$name" || dpkg-query -W -f "$format" "$name"; } 2>/dev/null |
      sed -n 's/^installed //p' | head -n 1)
    echo "$relation $name $facts"
  done
}

lines=$(known)
digest=$(printf '%s\n' "$version $created $distribution" "$lines" | sha256sum)
echo "$lines" | awk -v version="$version" -v created="$created" -v digest="$digest" \
  -v distribution="${distribution:-debian}" '
  function id_of(name) {
    gsub(/[+]/, ".plus", name)
    return "SPDXRef-Package-" name
  }
  function package(id, name, version, licence, locator) {
    printf "%s    {\n      \"SPDXID\": \"%s\",\n      \"name\": \"%s\",\n", separator, id, name
    if (version != "") printf "      \"versionInfo\": \"%s\",\n", version
    printf "      \"downloadLocation\": \"NOASSERTION\",\n      \"filesAnalyzed\": false,\n"
    if (locator != "")
      printf "      \"externalRefs\": [{\"referenceCategory\": \"PACKAGE-MANAGER\", " \
        "\"referenceType\": \"purl\", \"referenceLocator\": \"%s\"}],\n", locator
    printf "      \"licenseConcluded\": \"NOASSERTION\",\n"
    printf "      \"licenseDeclared\": \"%s\",\n", licence
    printf "      \"copyrightText\": \"NOASSERTION\"\n    }"
    separator = ",\n"
  }
  function escaped(text) {
    gsub(/%/, "%25", text); gsub(/[+]/, "%2B", text); gsub(/:/, "%3A", text)
    return text
  }
  { relation[NR] = $1; name[NR] = $2; versions[NR] = $3; machine[NR] = $4 }
  END {
    uuid = substr(digest, 1, 8) "-" substr(digest, 9, 4) "-5" substr(digest, 14, 3) "-8" \
      substr(digest, 18, 3) "-" substr(digest, 21, 12)
    print "{\n  \"spdxVersion\": \"SPDX-2.3\",\n  \"dataLicense\": \"CC0-1.0\","
    print "  \"SPDXID\": \"SPDXRef-DOCUMENT\",\n  \"name\": \"moepack-" version "\","
    print "  \"documentNamespace\": \"urn:uuid:" uuid "\","
    print "  \"creationInfo\": {\n    \"created\": \"" created "\","
    print "    \"creators\": [\"Tool: moepack-sbom.sh-" version "\"]\n  },\n  \"packages\": ["
    separator = ""
    package("SPDXRef-moepack", "moepack", version, "Apache-2.0", "")
    for (i = 1; i <= NR; ++i) {
      if (name[i] in seen) continue
      seen[name[i]] = 1
      locator = "pkg:deb/" distribution "/" escaped(name[i])
      if (versions[i] != "") locator = locator "@" escaped(versions[i]) "?arch=" machine[i]
      package(id_of(name[i]), name[i], versions[i], "NOASSERTION", locator)
    }
    printf "\n  ],\n  \"relationships\": [\n    {\"spdxElementId\": \"SPDXRef-DOCUMENT\", " \
      "\"relationshipType\": \"DESCRIBES\", \"relatedSpdxElement\": \"SPDXRef-moepack\"}"
    for (i = 1; i <= NR; ++i)
      printf ",\n    {\"spdxElementId\": \"%s\", \"relationshipType\": \"%s\", " \
        "\"relatedSpdxElement\": \"SPDXRef-moepack\"}", id_of(name[i]), relation[i]
    print "\n  ]\n}"
  }'

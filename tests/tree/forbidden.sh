#!/bin/sh
# What must not occur anywhere in the code: flags that make bytes depend on the machine, std::regex
# (it recurses on hostile names), hash tables that hostile names slow down, notes to self, and
# catch-all folders.
# usage: forbidden.sh ROOT
set -eu
cd "$1"
folders=$(sed -n 's,^\([a-z-]*\)[/:].*,\1,p' .ci/layers.txt | sort -u)
status=0

# forbid REASON PATTERN PLACES...: this script and its test have to spell out the patterns.
forbid() {
  reason=$1
  pattern=$2
  shift 2
  found=$(grep -rnIE --exclude-dir=tree --exclude-dir=tiny-moe --exclude-dir=bad \
    --exclude=package-lock.json -- "$pattern" "$@" || true)
  if [ -n "$found" ]; then
    echo "$found" | sed "s|\$|   <- $reason|"
    status=1
  fi
}

# A flag is a separate word in a build file; a comment that explains its absence is fine.
build_files=$(find CMakeLists.txt CMakePresets.json Makefile .ci $folders -name CMakeLists.txt \
  -o -name '*.cmake' -o -name Makefile -o -name CMakePresets.json -o -path '.ci/*' -type f)
forbid "bytes would depend on the machine" '^[^#]*-(march=native|ffast-math|Ofast)' $build_files
forbid "finish it, or open an issue" '\<(TODO|FIXME|XXX|HACK)\>' $folders
forbid "use libshard/base/text/regex.h: std::regex is slow and recurses" '# *include *<regex>' \
  $folders
forbid "PCRE2 is reached through libshard/base/text/regex.h" '# *include *<pcre2' \
  $(find $folders \( -name '*.cc' -o -name '*.h' \) ! -path libshard/base/text/regex.cc)
# Files of a checkpoint or distribution are read through a tree that decides what may be opened. The
# three open a file that an option named, or that moepack has just linked.
forbid "open it through its SourceTree" 'InputFile::Open\(' $(find libshard manifest runtime-shim \
  tools \( -name '*.cc' -o -name '*.h' \) ! -path 'libshard/base/*' ! -name side_files.cc \
  ! -name link_file.cc ! -name stated_file.cc)
forbid "use libshard/base/files/real_path.h: a lack of memory is no answer" \
  '\<(fs|filesystem)::((weakly_)?canonical|absolute|relative|proximate)\(' \
  $(find libshard manifest runtime-shim tools \( -name '*.cc' -o -name '*.h' \) \
  ! -path libshard/base/files/real_path.cc)
forbid "use TextMap or TextSet of libshard/base/text_map.h: names may be chosen to collide" \
  'unordered_(multi)?(map|set) *< *(std::)?string' quant libshard manifest runtime-shim tools
forbid "lock a mutex: an exception that leaves call_once ends the program if memory is refused" \
  'std::call_once' quant libshard manifest runtime-shim tools
forbid "libraries return a Result; only main exits" '\<(std::)?(exit|abort|_exit|quick_exit)\(' \
  quant libshard manifest runtime-shim
forbid "libraries do not print" '\<std::(cout|cerr|clog)\>|\<f?printf\(' \
  quant libshard manifest runtime-shim

found=$(find $folders -type d -o -name '*.cc' -o -name '*.h' |
  grep -E '/(common|utils?|helpers?|misc)(\.|$)' || true)
if [ -n "$found" ]; then
  echo "$found" | sed 's/$/   <- name it after what it is/'
  status=1
fi
exit $status

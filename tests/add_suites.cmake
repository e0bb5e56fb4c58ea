# Writes the file that lists the tests of a GoogleTest program for CTest: one test per suite, all of
# whose cases run in one process, because starting a process takes longer than most cases do.
# The tests of suites in LONG have a COST.
# usage: cmake -DPROGRAM=FILE -DPREFIX=NAME/ -DFILTER=PATTERN -DPROPERTIES=NAME,VALUE,...
#   -DLONG=NAME,...
#   -DREPORTS=DIRECTORY -DOUTPUT=FILE -P add_suites.cmake
# The test of suite S is called <PREFIX>S.* and writes the report <REPORTS>/<PREFIX>S.*.xml, with
# underscores for all characters other than letters and digits.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND ${PROGRAM} --gtest_list_tests --gtest_filter=${FILTER}
  OUTPUT_VARIABLE listed COMMAND_ERROR_IS_FATAL ANY)
# A suite begins at the start of a line; its cases follow, indented by two spaces.
string(REGEX REPLACE " *#[^\n]*" "" listed "${listed}")
string(REGEX MATCHALL "[^\n]+" lines "${listed}")
set(suites "")
foreach(line ${lines})
  if(line MATCHES "^[^ ]+\\.$")
    set(suite ${line})
    list(APPEND suites ${suite})
  elseif(line MATCHES "^  ([^ ]+)$")
    list(APPEND cases_${suite} ${suite}${CMAKE_MATCH_1})
  endif()
endforeach()

string(REPLACE "," " " properties "${PROPERTIES}")
string(REPLACE "," ";" LONG "${LONG}")
set(tests "")
foreach(suite ${suites})
  set(filter ${suite}*)
  if(NOT FILTER STREQUAL "*")  # patterns of cases cannot be narrowed to those of a suite
    string(REPLACE ";" ":" filter "${cases_${suite}}")
  endif()
  string(MAKE_C_IDENTIFIER "${PREFIX}${suite}*" report)
  set(cost "")
  string(REGEX REPLACE "[.]$" "" name ${suite})
  if(${name} IN_LIST LONG)  # CTest starts these first
    set(cost " COST 30")
  endif()
  string(APPEND tests "add_test([==[${PREFIX}${suite}*]==] [==[${PROGRAM}]==]"
    " [==[--gtest_filter=${filter}]==] [==[--gtest_output=xml:${REPORTS}/${report}.xml]==])\n"
    "set_tests_properties([==[${PREFIX}${suite}*]==] PROPERTIES ${properties}${cost})\n")
endforeach()
file(WRITE ${OUTPUT} "${tests}")

// The protocol between the tests and the library that they preload into moepack (LD_PRELOAD). None
// of it is part of moepack.
#pragma once

#include <cstdint>

namespace faults {

// Environment variables.
inline constexpr const char* kKindsVariable = "MOEPACK_FAULT_KINDS";  // names of kKinds, by commas
inline constexpr const char* kAtVariable = "MOEPACK_FAULT_AT";        // number of a call, from 0
inline constexpr const char* kCountVariable = "MOEPACK_FAULT_COUNT";  // how many from there on
inline constexpr const char* kEveryVariable = "MOEPACK_FAULT_EVERY";  // or: every such call
inline constexpr const char* kHowVariable = "MOEPACK_FAULT_HOW";      // error, short or kill
inline constexpr const char* kErrnoVariable = "MOEPACK_FAULT_ERRNO";
// Only calls for files below this directory count, except for mmap, thread and alloc.
inline constexpr const char* kBelowVariable = "MOEPACK_FAULT_BELOW";
inline constexpr const char* kReportVariable = "MOEPACK_FAULT_REPORT";  // a file for a Report
// "1": clones of files succeed, also on a file system that has none.
inline constexpr const char* kClonesVariable = "MOEPACK_FAULT_CLONES";
// A file to which every change of files below the directory is written, call by call.
inline constexpr const char* kLogVariable = "MOEPACK_FAULT_LOG";

// Groups of system calls that can be made to fail. KindName gives their names.
enum Kind : uint32_t {
  kOpen = 1u << 0,  // all of them; kCreate are those that may create the file
  kRead = 1u << 1,
  kWrite = 1u << 2,
  kFlush = 1u << 3,
  kRename = 1u << 4,
  kLink = 1u << 5,
  kUnlink = 1u << 6,
  kMakeDirectory = 1u << 7,
  kTruncate = 1u << 8,  // ftruncate and fallocate
  kMap = 1u << 9,
  kClone = 1u << 10,  // FICLONE, FICLONERANGE, copy_file_range
  kStat = 1u << 11,   // queries about a file, a directory or a file system; lists of names
  kThread = 1u << 12,
  kAlloc = 1u << 13,
  kLock = 1u << 14,  // flock; "short" grants it without a lock
  kCreate = 1u << 15,
};
struct KindName {
  const char* name;
  uint32_t kind;
};
inline constexpr KindName kKinds[] = {
    {"open", kOpen},         {"read", kRead},   {"write", kWrite},   {"fsync", kFlush},
    {"rename", kRename},     {"link", kLink},   {"unlink", kUnlink}, {"mkdir", kMakeDirectory},
    {"truncate", kTruncate}, {"mmap", kMap},    {"clone", kClone},   {"stat", kStat},
    {"thread", kThread},     {"alloc", kAlloc}, {"lock", kLock},     {"create", kCreate},
};

// In the file of kReportVariable, which both sides map.
struct Report {
  uint64_t calls;   // of the chosen kinds
  uint64_t faults;  // how many of them failed, were short, or ended the process
  char call[16];    // the first of those: its name, and its file
  char path[1000];
};

// A record of the log is a line "<op> <number> <number> <bytes of a> <bytes of b> <bytes of
// data>", then a, b, the data and a newline. a and b are absolute paths.
//   create a | mkdir a | write a, offset, data | truncate a, size | fsync a | unlink a | rmdir a |
//   rename a b | link a b | symlink a b (a is the text of the link)

}  // namespace faults

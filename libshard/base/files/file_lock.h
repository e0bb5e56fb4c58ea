// Locks that exclude other processes, and file systems that have none.
#pragma once

#include <string>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/inside_directory.h"
#include "libshard/base/result.h"

namespace moepack {

enum class FileLock {
  kTaken,
  kHeld,  // by another process
  kNone,  // this file system has no locks, or grants them to everybody
};

// Takes the lock (flock) of `file`, which is `name` in `directory`, and does not wait for it. It
// ends with the descriptor. kNotFound when somebody removed the file meanwhile. A file system whose
// locks hold on one machine only (Lustre with `localflock`) looks like one with locks.
Result<FileLock> TakeLock(const InsideDirectory& directory, const std::string& name,
                          const Descriptor& file);

// The same for the directory itself, so that nothing is left in it. NFS, which locks only what is
// open for writing, has no such locks.
Result<FileLock> TakeLock(const InsideDirectory& directory);

// A name that no other running process has: machine, process namespace and number.
std::string ProcessName();
// Whether `name` is the ProcessName of a process of this machine and namespace that has ended.
bool IsEndedProcess(const std::string& name);

}  // namespace moepack

// Every command that writes something, on a small model, with the expected output.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "fixtures/memory_temp.h"
#include "fixtures/temp_dir.h"
#include "tests/faults/support/fault_run.h"

namespace faults {

// Names of files, relative to a directory, and their bytes. Empty directories are left out.
using Tree = std::map<std::string, std::string>;
Tree ReadTree(const std::filesystem::path& directory);

struct WritingCommand {
  std::string name;  // letters only: of a test
  std::vector<std::string> arguments;
  // The path it creates or changes, in the workspace.
  std::string output;
  // The output appears in one step, complete. Otherwise each of its files does.
  bool at_once = true;
  // Its output differs from run to run, as keys do, but not in its size, unless it is JSON.
  bool is_random = false;
  // The JSON file of the output that is replaced in several steps; "" if there is none.
  std::string in_steps = {};
  // Clones of files succeed in its runs.
  bool clones = false;
  // The file of a split set without which the others are none; "" if the output has no set. While
  // it is there all files are old, or all are new, and a run that replaces them may remove it.
  std::string first_of_set = {};
};
std::ostream& operator<<(std::ostream& out, const WritingCommand& command);

const std::vector<WritingCommand>& WritingCommands();
const WritingCommand& CommandOf(std::string_view name);
// Some of them that clone files, with the same output as when they do not.
std::vector<WritingCommand> CloningCommands();

// The inputs of all commands, made once, and copies of them for one run each.
class Inputs {
 public:
  Inputs();
  // "" or why there is nothing to compare with: an input that could not be made, or the message of
  // the command when nothing failed.
  std::string ProblemOf(const WritingCommand& command);
  const std::filesystem::path& path() const { return dir_.path(); }
  // A separate workspace for one run.
  std::unique_ptr<fixtures::TempDir> Copy() const;
  // What the command leaves if nothing fails.
  const Tree& Golden(const WritingCommand& command);
  // The output before the command.
  const Tree& Before(const WritingCommand& command);

 private:
  void Make(const std::vector<std::string>& arguments);
  // Two tasks calibrate together; what the second one wrote for the first one stays.
  void MakeSharedCalibration();

  const fixtures::MemoryTemp in_memory_;  // they are flushed thousands of times
  fixtures::TempDir dir_;
  std::map<std::string, Tree> golden_, before_;
  std::map<std::string, std::string> problems_;  // by command
  std::string problem_;                          // of an input
};
Inputs& SharedInputs();

// Runs the command in a workspace (RunWithFault).
FaultRun RunCommand(const WritingCommand& command, const std::filesystem::path& workspace,
                    Fault fault, const std::filesystem::path& log = {});

// The output of a command in a workspace.
Tree OutputOf(const WritingCommand& command, const std::filesystem::path& workspace);
// What is wrong with the output of a run, however it ended: "" if the output is as before, right,
// or absent.
std::string ProblemOfOutput(const WritingCommand& command, const std::filesystem::path& workspace);
// The same for an output that is not on a disk: `there` says whether anything has its name, and
// `golden` is what is right.
std::string ProblemOfFiles(const WritingCommand& command, bool there, const Tree& found,
                           const Tree& golden);
// The first file in which two trees differ, as text; "" if there is none. Random files may differ
// as those of `is_random` do.
std::string DifferenceOf(const Tree& found, const Tree& golden, bool is_random = false);
// The same for a run that was not killed, with its status and message.
std::string ProblemOfRun(const WritingCommand& command, const std::filesystem::path& workspace,
                         const FaultRun& run);
// Runs the command again, without faults: what is wrong with the result.
std::string ProblemOfRerun(const WritingCommand& command, const std::filesystem::path& workspace);

}  // namespace faults

#include "tools/commands/held_out.h"

#include "libshard/base/text/text.h"
#include "runtime-shim/refit/overlap.h"
#include "tools/base/output.h"

namespace moepack::cli {

Status CheckHeldOut(const HeldOutTexts& held_out, const LoadedModel& loaded,
                    const std::vector<TokenSession>& calibration) {
  if (held_out.files.empty()) return Ok();
  TextArguments texts;
  texts.texts = held_out.files;
  SHARD_TRY(const std::vector<TokenSession> sessions,
            ReadSessions(texts, loaded.model->vocabulary(), TokenizeAs(loaded.weights)));
  const auto overlaps = runtime::FindOverlaps(calibration, sessions);
  const Status checked = runtime::CheckOverlaps(overlaps);
  if (checked) return Ok();
  Error error = checked.error();
  if (!held_out.force) {
    error.hint = held_out.hint;
    return error;
  }
  PrintWarnings({Cat("overlap: ", error.message)});
  return Ok();
}

}  // namespace moepack::cli

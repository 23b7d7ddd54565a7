// Functions that make the tasks, one file each. Only task.cc and tests use them; other code uses
// MakeTask of task.h. Options and material are borrowed.
#ifndef RECOLLECT_CLI_NIAH_TASKS_H_
#define RECOLLECT_CLI_NIAH_TASKS_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/niah/task.h"

namespace recollect::cli::niah {

// Kinds of needle tasks: one needle; one needle and `distractors` others of the same form; one
// needle with a value of hex digits.
enum class NeedleKind { kPasskey, kDistractors, kHex };
std::unique_ptr<Task> MakeNeedles(NeedleKind kind, const TaskOptions& options,
                                  const Material& material);
// Asks for a few words of the haystack itself: where they are, and how the text continues.
std::unique_ptr<Task> MakeQuote(const TaskOptions& options);
// Measures how well a passage is predicted with and without the document that contains it.
std::unique_ptr<Task> MakeReread(const TaskOptions& options);
// Judges how texts go on: as prose, as what training asked, or as the same again and again.
std::unique_ptr<Task> MakeProse(const TaskOptions& options, const Material& material);
// Asks for a record among others of its shape, in many shapes that are not trained.
std::unique_ptr<Task> MakeRecords(const TaskOptions& options, const Material& material);
// The tasks of RULER that its generator makes without further data.
std::unique_ptr<Task> MakeRuler(const Material& material);

}  // namespace recollect::cli::niah

#endif  // RECOLLECT_CLI_NIAH_TASKS_H_

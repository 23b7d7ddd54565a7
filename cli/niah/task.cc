#include "cli/niah/task.h"

#include <functional>

#include "cli/niah/tasks.h"

namespace recollect::cli::niah {
namespace {

struct Row {
  const char* name;
  std::function<std::unique_ptr<Task>(const TaskOptions&, const Material&)> make;
};

const std::vector<Row>& Table() {
  static const auto* const table = new std::vector<Row>{
      {"passkey",
       [](const auto& o, const auto& m) { return MakeNeedles(NeedleKind::kPasskey, o, m); }},
      {"distractors",
       [](const auto& o, const auto& m) { return MakeNeedles(NeedleKind::kDistractors, o, m); }},
      {"hex", [](const auto& o, const auto& m) { return MakeNeedles(NeedleKind::kHex, o, m); }},
      {"quote", [](const auto& o, const auto&) { return MakeQuote(o); }},
      {"reread", [](const auto& o, const auto&) { return MakeReread(o); }},
      {"prose", [](const auto& o, const auto& m) { return MakeProse(o, m); }},
      {"records", [](const auto& o, const auto& m) { return MakeRecords(o, m); }},
      {"ruler", [](const auto&, const auto& m) { return MakeRuler(m); }},
  };
  return *table;
}

}  // namespace

std::vector<std::string> TaskNames() {
  std::vector<std::string> names;
  for (const Row& row : Table()) names.push_back(row.name);
  return names;
}

std::unique_ptr<Task> MakeTask(const std::string& name, const TaskOptions& options,
                               const Material& material) {
  for (const Row& row : Table()) {
    if (name == row.name) return row.make(options, material);
  }
  return nullptr;
}

}  // namespace recollect::cli::niah

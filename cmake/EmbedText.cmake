# Writes OUTPUT, C++ with the content of FILE as what FUNCTION, declared in HEADER in recollect::model, returns.
#   cmake -DFILE=model/text/idf.txt -DHEADER=model/text/idf_table.h -DFUNCTION=IdfTable -DOUTPUT=idf_table.cc -P cmake/EmbedText.cmake
file(READ ${FILE} content)
if(content MATCHES "[)]text\"")
  message(FATAL_ERROR "${FILE}: has )text\", which ends the literal that holds it")
endif()
set(text "#include \"${HEADER}\"\n\nnamespace recollect::model {\nnamespace {\n\nusing namespace std::string_view_literals;\nconstexpr std::string_view kText = R\"text(")
string(APPEND text "${content}" ")text\"sv;\n\n}  // namespace\n\nstd::string_view ${FUNCTION}() { return kText; }\n\n}  // namespace recollect::model\n")
file(WRITE ${OUTPUT} "${text}")

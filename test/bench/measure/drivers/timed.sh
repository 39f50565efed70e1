# timed.sh FILE COMMAND...: runs the command and writes when its process had ended.
file=$1
shift
"$@"
code=$?
date +%s.%N >>"$file"
exit "$code"

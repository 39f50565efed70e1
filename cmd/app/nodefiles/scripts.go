package nodefiles

// beginUpload resolves DST ($1) for a source with the last name $2, makes the directory $3 beside the target, and prints the target.
const beginUpload = `
dst=$1
while case $dst in ?*/) true;; *) false;; esac; do dst=${dst%/}; done
if [ -d "$1" ]; then parent=$1 name=$2
else
	case $1 in */) echo "there is no directory $1 on the node" >&2; exit 1;; esac
	name=${dst##*/} parent=${dst%"$name"}
fi
if [ ! -d "${parent:-.}" ]; then echo "there is no directory $parent on the node: make it first, with mkdir and rayctl exec" >&2; exit 1; fi
parent=$(cd -P -- "${parent:-.}" && pwd -P) && mkdir -- "${parent%/}/$3" && printf '%s\n' "${parent%/}/$name"`

// finishUpload unpacks its stdin into the directory $3 in $1. Once all is unpacked, it moves the unpacked entry $2 into $1. If $1 already has a directory $2,
// that directory stays and its files are replaced one by one.
const finishUpload = `
stage=${1%/}/$3
place() {
	if [ -d "$1" ] && [ ! -L "$1" ] && [ -d "$2" ] && [ ! -L "$2" ]; then
		for each in "$1"/* "$1"/.[!.]* "$1"/..?*; do
			if [ -e "$each" ] || [ -L "$each" ]; then place "$each" "$2/${each##*/}" || return 1; fi
		done
	elif [ -L "$2" ]; then rm -f -- "$2" && mv -f -- "$1" "$2"
	elif [ -d "$2" ]; then echo "$2 is a directory" >&2; return 1
	elif [ -e "$2" ] && [ ! -f "$2" ]; then echo "$2 is neither a file nor a directory" >&2; return 1
	else mv -f -- "$1" "$2"
	fi
}
tar -C "$stage" -xf - && place "$stage/$2" "${1%/}/$2" && rm -rf -- "$stage"`

// sendDownload writes an archive of the entry $4 of the directory $3 to stdout. $1 is a file that rayctl made beside the target $2 on the user's machine. If the
// node sees $1 too, both machines share that file system: then source and target must not be the same, and the target must not be in the source. If $4 is a
// symbolic link, the archive has the file it leads to, or the entries of the directory it leads to as ./NAME. Links in a directory stay links.
const sendDownload = `
if [ -n "$1" ] && [ -e "$1" ]; then
	if [ "$3/$4" -ef "$2" ]; then echo "${3%/}/$4 and $2 are the same file or directory: nothing was copied" >&2; exit 1; fi
	if [ -d "$3/$4" ]; then
		from=$(cd -P -- "$3/$4" && pwd -P) to=$(cd -P -- "${1%/*}/" && pwd -P)
		case $to/ in "$from"/*) echo "$3/$4 cannot be copied into itself, as $2" >&2; exit 1;; esac
	fi
fi
if [ ! -e "$3/$4" ]; then echo "there is no ${3%/}/$4, or it may not be seen" >&2; exit 1; fi
if [ ! -r "$3/$4" ]; then echo "${3%/}/$4 may not be read by $(id -un)" >&2; exit 1; fi
if [ ! -d "$3/$4" ] && [ ! -f "$3/$4" ]; then echo "${3%/}/$4 is neither a file nor a directory" >&2; exit 1; fi
if [ ! -L "$3/$4" ]; then exec tar -C "$3" -cf - -- "$4"; fi
if [ -d "$3/$4" ]; then exec tar -C "$3/$4" -cf - .; fi
exec tar -C "$3" -chf - -- "$4"`

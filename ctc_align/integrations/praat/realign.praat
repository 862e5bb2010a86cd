# Align again between the edges that were corrected in the TextGrid of an earlier alignment.

form Realign around my corrections
	comment The edges and labels that you changed stay; everything between them is aligned again.
	comment The earlier alignment (JSON). Leave it empty after “Align...”.
	sentence Earlier_alignment
endform

include job.praat

@newJob
@saveSound
@fullPath: earlier_alignment$
json$ = fullPath.result$
if json$ = ""
	json$ = alignment_folder$ + "/" + sound_name$ + ".json"
	if not fileReadable (json$)
		@chooseFile: "The JSON of the earlier alignment of " + sound_name$
		json$ = chooseFile.path$
	endif
	if json$ = ""
		exitScript: "Align the sound first: its alignment (JSON) is needed."
	endif
endif
@saveTextGrid: "", sound_name$ + ".TextGrid"
@jobLine: "copy", json$ + tab$ + sound_name$ + ".json"
@argument: "realign"
@argument: sound_name$ + ".json"
@option: "--audio", sound_name$ + ".wav"
@option: "--format", "textgrid,json"
@option: "--out-dir", "out"
@jobLine: "keep", alignment_folder$ + tab$ + ".aligned"
@run: "aligning " + sound_name$ + " again (" + sound_seconds$ + " seconds of sound)"
@requireResult
@readTextGrid: alignment_folder$

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
earlier$ = fullPath.result$
if earlier$ = ""
	earlier$ = alignment_folder$
endif
@saveTextGrid: "", sound_name$ + ".TextGrid"
@jobLine: "earlier", earlier$ + tab$ + sound_name$
@argument: "realign"
@argument: sound_name$ + ".json"
@option: "--audio", sound_name$ + ".wav"
@option: "--format", "textgrid,json"
@option: "--out-dir", "out"
@jobLine: "keep", kept_folder$ + tab$ + ".aligned"
@run: "aligning " + sound_name$ + " again (" + sound_seconds$ + " seconds of sound)"
@requireResult
@readTextGrid

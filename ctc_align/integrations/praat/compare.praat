# Measure the edges of a TextGrid against those of another, in the Info window.

form Compare edges with another TextGrid
	comment Errors are those of one TextGrid, measured against the other, the reference.
	optionmenu Compare: 1
		option words
		option phones
	comment Names of the tiers. Leave them empty to let ctc-align find them.
	sentence Tier
	sentence Tier_of_the_reference
	optionmenu Reference: 1
		option the lower TextGrid in the list
		option the upper TextGrid in the list
	comment With one TextGrid selected: the file of the reference. Leave it empty to choose it.
	sentence Reference_file
endform

include job.praat

first = selected ("TextGrid", 1)
@newJob
sound_start = 0
if numberOfSelected ("TextGrid") = 2
	second = selected ("TextGrid", 2)
	textgrid = first
	@saveTextGrid: "", "upper.TextGrid"
	textgrid = second
	@saveTextGrid: "", "lower.TextGrid"
	hypothesis$ = "upper.TextGrid"
	reference$ = "lower.TextGrid"
	if reference = 2
		hypothesis$ = "lower.TextGrid"
		reference$ = "upper.TextGrid"
	endif
else
	@fullPath: reference_file$
	reference$ = fullPath.result$
	if reference$ = ""
		@chooseFile: "The TextGrid with the true edges"
		reference$ = chooseFile.path$
	endif
	if reference$ = ""
		exitScript: "There is nothing to compare with."
	endif
	textgrid = first
	@saveTextGrid: "", "measured.TextGrid"
	hypothesis$ = "measured.TextGrid"
endif
@argument: "evaluate"
@argument: hypothesis$
@argument: reference$
@option: "--tier", compare$
@option: "--hypothesis-tier", tier$
@option: "--reference-tier", tier_of_the_reference$
@run: "comparing edges"
@requireResult
writeInfo: output$, messages$
